"""What the agent does on a node, with folders of the test in place of the node's."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from pathlib import Path

import pytest

from scenarios.backends.kind import agent
from scenarios.backends.kind.agent import Agent, AgentDevices, AgentFiles
from simkubelet.apis.inotify import Mask, PathEvent
from tests.support.patience import until


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node's root; device nodes are plain files."""
    made = tmp_path / "host"
    place = made / "var/lib/simkubelet"
    place.mkdir(parents=True)
    (made / "usr/bin").mkdir(parents=True)
    monkeypatch.setattr(agent, "HOST", made)
    monkeypatch.setattr(agent, "PLACE", place)
    monkeypatch.setattr(agent, "CREATED", place / "created")
    monkeypatch.setattr(os, "mknod", lambda path, _mode, _device: Path(path).touch())
    return made


def test_node_with_gpus_has_their_driver_and_what_a_container_runtime_needs(host: Path) -> None:
    driver = host / "var/lib/simkubelet/driver"

    told = AgentDevices().do_machine(
        cdi="example.com/gpu", driver=str(driver), profile="a100-40gb", count=1, seed="x", mig=[["1g.5gb"]]
    )

    assert told["environment"].items() >= {"NVIDIA_DRIVER_ROOT": str(driver), "NVIDIA_DEV_ROOT": "/"}.items()
    assert json.loads(told["cdi"])["kind"] == "example.com/gpu"
    assert next(driver.rglob("libfakegpu.so.*")).samefile(host / "var/lib/simkubelet/machine/segment")
    hooks = ("/usr/bin/nvidia-ctk", "/usr/bin/nvidia-cdi-hook")
    assert all(os.access(f"{host}{hook}", os.X_OK) for hook in hooks)
    assert {"/dev", *hooks} <= set((driver.parent / "created").read_text().split())


def test_dated_file_was_changed_so_long_ago(host: Path) -> None:
    files = AgentFiles()
    files.do_create_file("/etc/a", "")
    files.do_date_file("/etc/a", 3600.0)

    assert (host / "etc/a").stat().st_mtime == pytest.approx(time.time() - 3600, abs=600)


def test_kubelet_found_before_its_event_is_reported_once(
    host: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Relative, as a socket's path is short.
    monkeypatch.chdir(host)
    monkeypatch.setattr(agent, "PLUGINS", Path())
    seen = Agent()
    created = PathEvent(Mask.CREATE, Path("kubelet.sock"))

    def reported() -> int:
        return capsys.readouterr().out.count('"kubelet": true')

    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as next_one:
        first.bind("kubelet.sock")
        first.listen()
        seen.do_look_again()
        seen._handle(created)
        assert reported() == 1

        Path("kubelet.sock").rename("old.sock")
        next_one.bind("kubelet.sock")
        next_one.listen()
        seen._handle(created)
        assert reported() == 1


async def test_tap_stands_before_both_folders_of_the_kubelet_also_after_a_reboot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="a-") as short:
        host = Path(short)
        registry, sockets, taps = host / "var/lib/kubelet/plugins_registry", host / "d", host / "t"
        for folder in (registry, sockets):
            folder.mkdir(parents=True)
        for name, place in {"HOST": host, "PLUGINS": sockets, "TAPS": taps}.items():
            monkeypatch.setattr(agent, name, place)
        seen = Agent()
        seen.do_add_tap("gpu")
        with socket.socket(socket.AF_UNIX) as found, socket.socket(socket.AF_UNIX) as registering:
            (taps / "gpu_found/sub").mkdir()
            found.bind(str(taps / "gpu_found/sub/a.sock"))
            registering.bind(str(taps / "gpu/b.sock"))

            await until(lambda: (registry / "sub/a.sock").exists() and (sockets / "b.sock").exists())

        assert sorted(path.name for path in taps.iterdir()) == ["gpu", "gpu_found"]
        await seen._taps["gpu"].close()

        after = Agent()
        after.add_taps()
        assert list(after._taps) == ["gpu"]
        await after._taps["gpu"].close()


def test_a_nodes_own_toolkit_stays(host: Path) -> None:
    own = host / "usr/bin/nvidia-cdi-hook"
    own.write_text("own")

    AgentDevices().do_machine(
        cdi="example.com/gpu", driver=str(host / "var/lib/simkubelet/driver"), profile="t4", count=1, seed=None, mig=()
    )

    assert own.read_text() == "own"
