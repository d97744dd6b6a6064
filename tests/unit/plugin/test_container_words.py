"""What the words and variables of a container on a simulated node may do to a bundled plugin."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from plugin.cli import PLUGINS
from plugin.command.options import CommonOptions, FilePath, is_in_container, on_host
from plugin.command.plugin_command import PluginCommand
from plugin.nvidia.discovery.node import DriverRoot
from plugin.nvml.events import DISABLE_VARIABLE, ENABLE_VARIABLE


def commands() -> Iterator[PluginCommand]:
    for module in PLUGINS.values():
        command = importlib.import_module(module, "plugin").command
        if isinstance(command, PluginCommand):
            yield command


COMMANDS = {command.name: command for command in commands()}
FILES = [
    (command.name, option.name)
    for command in COMMANDS.values()
    for option in command.params
    if isinstance(option, click.Option)
    and (option.metavar in ("FILE", "PATH") or isinstance(option.type, click.Path))
    and option.name not in ("kubelet_dir", "host_root", "directory", "nvidia_ctk_path")
]
"""Of the options left out the first two are given behind a container's words, and the others are paths of the node."""


def parsed(command: PluginCommand, root: Path, args: list[str], env: dict[str, str]) -> click.Context:
    words = [*args, "--kubelet-dir", str(root / "plugins"), "--host-root", str(root / "root")]
    return command.make_context("plugin", [*words, "--container", json.dumps(env)])


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("root", "plugins"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return tmp_path


@pytest.mark.parametrize(("plugin", "option"), FILES)
def test_option_that_names_a_file_names_one_of_the_node(plugin: str, option: str) -> None:
    found = next(one for one in COMMANDS[plugin].params if one.name == option)

    assert isinstance(found.type, FilePath)


def test_there_are_plugins_with_files() -> None:
    assert {plugin for plugin, _ in FILES} >= {"generic", "gpushare", "iluvatar", "nvidia", "nvidia-mps", "volcano"}


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("/config/file", "root/config/file"),
        ("config/file", "root/config/file"),
        ("//config/./file", "root/config/file"),
        ("/../../../etc/passwd", "root/etc/passwd"),
        ("/var/lib/kubelet/device-plugins/kubelet.sock", "plugins/kubelet.sock"),
        ("/var/lib/kubelet/device-plugins/../device-plugins/a", "plugins/a"),
        ("/var/lib/kubelet/device-plugins/../../x", "root/var/lib/x"),
        ("", None),
    ],
)
def test_file_of_a_container_is_a_file_of_the_node(node: Path, given: str, seen: str | None) -> None:
    context = parsed(COMMANDS["nvidia"], node, ["--config-file", given], {"KUBELET_SOCKET": given})

    expected = "" if seen is None else str(node / seen)
    assert context.params["config_file"] == context.params["kubelet_socket"] == expected
    assert is_in_container(context)


def test_link_out_of_the_node_is_refused(node: Path) -> None:
    (node / "root" / "link").symlink_to("/etc/passwd")

    with pytest.raises(click.BadParameter, match="leads out of the node"):
        parsed(COMMANDS["generic"], node, ["--config", "/link"], {})


@pytest.mark.parametrize("args", [["--kubelet-dir", "/", "--host-root=/"], ["--host-root", "/etc"]])
def test_places_of_the_node_win(node: Path, args: list[str]) -> None:
    context = parsed(COMMANDS["gopher"], node, args, {})

    assert (context.params["kubelet_dir"], context.params["host_root"]) == (node / "plugins", node / "root")


@pytest.mark.parametrize("args", [["--"], ["--log-level"], ["--kubelet-dir"], ["--container", "{}"], ["x"]])
def test_words_that_would_hide_the_places_of_the_node_are_refused(node: Path, args: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parsed(COMMANDS["gopher"], node, args, {})


def test_only_variables_that_the_plugin_reads_are_taken(node: Path) -> None:
    harmful = {"LD_PRELOAD": "x", "PYTHONPATH": "x", "KUBECONFIG": "x", "KUBERNETES_SERVICE_HOST": "x", "TMPDIR": "x"}
    before = {name: os.environ.get(name) for name in harmful}

    for command in COMMANDS.values():
        command.parse_args(click.Context(command), [*words(command, node), "--container", json.dumps(harmful)])

    assert {name: os.environ.get(name) for name in harmful} == before
    assert COMMANDS["nvidia"].readable > {"MIG_STRATEGY", "CONFIG_FILE", DISABLE_VARIABLE, ENABLE_VARIABLE}


def words(command: PluginCommand, node: Path) -> list[str]:
    needed = ["--config", "/config"] if command.name == "generic" else []
    return [*needed, "--kubelet-dir", str(node / "plugins"), "--host-root", str(node / "root")]


def test_variable_of_a_container_is_the_plugins(node: Path) -> None:
    context = parsed(COMMANDS["nvidia"], node, [], {"MIG_STRATEGY": "single", DISABLE_VARIABLE: "all"})

    assert (context.params["mig_strategy"], os.environ[DISABLE_VARIABLE]) == ("single", "all")


@pytest.mark.parametrize("path", ["../../x", "/../x", "x", "/./x", "//x"])
def test_path_on_the_node_leads_above_no_root(path: str) -> None:
    root = Path("/node/root")

    assert on_host(root, path) == CommonOptions(root, root, "info").on_host(Path(path)) == root / "x"
    assert DriverRoot(path, root).file("y") == root / "x" / "y"


def test_container_loads_no_library_of_the_node(tmp_path: Path) -> None:
    library = tmp_path / "driver" / "usr" / "lib64" / "libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    library.touch()

    assert DriverRoot("/driver", tmp_path).library(library.name) == str(library)
    assert DriverRoot("/driver", tmp_path, has_libraries=False).library(library.name) == library.name
