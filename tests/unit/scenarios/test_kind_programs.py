"""What a program of the user's needs on a node of a cluster, and its paths there."""

import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.kind.daemon_set import Place, daemon_set
from scenarios.backends.kind.image import PluginImage
from scenarios.backends.kind.program import PROGRAMS, Program, archive_of, carried
from scenarios.story.specs import PluginSpec
from scenarios.story.stub_spec import Registers, Serves
from simkubelet.model.errors import InputError
from tests.support.stories import program, script

_IMAGE = PluginImage("simkubelet/plugin:1", "/usr/bin/python3", "/site")


def test_the_python_that_runs_here_is_in_the_image_already(tmp_path: Path) -> None:
    file = script(tmp_path, f"#!{sys.executable}")

    made = program(file)

    assert made.argv == (str(Path(sys.executable).resolve()), file)
    assert made.files == {Path(file)}


@pytest.mark.parametrize(
    ("first_line", "words"),
    [
        ("#!/no/such/shell", "the interpreter of {file}: no program '/no/such/shell'"),
        ("#!/usr/bin/env no-such-shell", "the interpreter of {file}: no program 'no-such-shell'"),
        ("#!", "the interpreter of {file}: no program ''"),
        ("", "{file} is neither a native program nor a script"),
    ],
)
def test_what_cannot_be_carried_is_reported(first_line: str, words: str, tmp_path: Path) -> None:
    file = script(tmp_path, first_line)

    with pytest.raises(InputError) as caught:
        program(file)

    assert str(caught.value).startswith(f"plugin 'mine': {words.format(file=file)}")


def test_python_script_brings_the_modules_beside_it_that_it_imports(tmp_path: Path) -> None:
    for name, text in {
        "plugin.py": "import json\nif json:\n    from first import value\n",
        "first.py": "from __future__ import annotations\nimport second, os.path\nvalue = 1\n",
        "second.py": "import first, plugin\nfrom . import other\nthis is no Python\n",
        "other.py": "",
        "json_.py": "",
    }.items():
        (tmp_path / name).write_text(text)

    program = carried((sys.executable, "plugin.py"), tmp_path)

    assert {path.name for path in program.files} == {"plugin.py", "first.py", "second.py"}


def test_another_python_would_lack_its_modules(tmp_path: Path) -> None:
    (tmp_path / "python3.99").write_bytes(b"\x7fELF")
    (tmp_path / "python3.99").chmod(0o755)

    with pytest.raises(InputError, match="another Python than the one that runs simkubelet"):
        program(str(tmp_path / "python3.99"))


def test_programs_folder_has_what_links_point_at(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("content")
    (tmp_path / "link").symlink_to("real")

    with tarfile.open(fileobj=io.BytesIO(archive_of([Program(("x",), frozenset([tmp_path / "link"]))]))) as made:
        (only,) = made.getmembers()
        content = made.extractfile(only)
        assert content is not None
        assert content.read() == b"content"
    assert only.name == f"{PROGRAMS}{tmp_path}/link".lstrip("/")


def test_bundled_plugin_finds_settings_and_machine_files() -> None:
    spec = PluginSpec(name="nvidia", builtin="nvidia")
    files = {"/etc/nvidia/config.yaml": "version: v1", "/etc/gophers/g1": ""}

    made = daemon_set(spec, Place("node-1", {"FAKEGPU_SEGMENT": "/x"}, files, has_machine=True), _IMAGE, None)

    mounted = mounts_of(made)
    assert mounted["/etc/nvidia"] == "/etc/nvidia"
    assert "/etc/gophers" not in mounted
    assert mounted["/host/sys"].endswith("/machine/sys")
    assert mounted["/host/proc"].endswith("/machine/proc")
    assert mounted["/run/cdi"] == "/run/cdi"


def test_stub_that_is_to_be_found_has_the_registry() -> None:
    found = PluginSpec(name="stub", builtin="stub", serves=Serves(registers=Registers.FOUND))
    place = Place("node-1", {}, {}, has_machine=False)

    mounted = mounts_of(daemon_set(found, place, _IMAGE, None))
    assert mounted["/var/lib/kubelet/plugins_registry"] == "/var/lib/kubelet/plugins_registry"
    usual = PluginSpec(name="stub", builtin="stub")
    assert "/var/lib/kubelet/plugins_registry" not in mounts_of(daemon_set(usual, place, _IMAGE, None))


def test_a_program_sees_a_nodes_own_paths() -> None:
    spec = PluginSpec(name="mine", command=("/opt/plugin",), env={"DEBUG": "1"})
    place = Place("node-2", {"FAKEGPU_SEGMENT": "/x"}, {"/etc/gophers/g1": "", "/etc/gophers/g2": ""}, has_machine=True)

    made = daemon_set(spec, place, _IMAGE, Program(("/opt/plugin", "-v"), frozenset([Path("/opt/plugin")])))

    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounted = mounts_of(made)
    assert container["command"] == ("/opt/plugin", "-v")
    assert {"name": "DEBUG", "value": "1"} in container["env"]
    assert mounted["/opt/plugin"] == f"{PROGRAMS}/opt/plugin"
    assert mounted["/etc/gophers"] == "/etc/gophers"
    assert mounted["/var/lib/kubelet/device-plugins"] == "/var/lib/kubelet/device-plugins"
    assert mounted["/sys/bus/pci/devices"].endswith("/machine/sys/bus/pci/devices")
    assert mounted["/var/run/cdi"] == "/run/cdi"
    assert pod["nodeSelector"] == {"simkubelet.plugin/mine": "node-2"}


def mounts_of(made: Any) -> dict[str, str]:
    """Path in the container -> path on the node."""
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    on_node = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    return {mount["mountPath"]: on_node[mount["name"]] for mount in container["volumeMounts"]}
