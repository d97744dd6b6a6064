"""What steps change on a simulated node from outside: its files and folders, its container runtime."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from scenarios.backends.sim.changes import change_runtime, story_pauses
from scenarios.backends.world.node import SimNode
from scenarios.story.specs import NodeSpec
from scenarios.story.verbs.file_action import (
    CreateFile,
    CreateFolder,
    DateFile,
    MoveFile,
    RemoveFile,
    RemoveFolder,
    WriteFile,
)
from scenarios.story.verbs.node_action import PauseRuntime, RefuseCri, ResumeRuntime
from scenarios.trace.trace import Trace
from simkubelet.model.clock import ManualClock
from simkubelet.model.errors import InputError
from simkubelet.model.events import DevicesListed
from simkubelet.runtime.cri import Cri
from simkubelet.runtime.cri_call import CriCall
from tests.support.patience import LIMIT_S
from tests.support.stories import SOCKETS, change


def kinds(trace: Trace) -> list[str]:
    return [event.kind for event in trace]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        pytest.param(SOCKETS, "device-plugins", id="plugins"),
        pytest.param("/var/lib/kubelet/plugins_registry/a", "plugins_registry/a", id="registry"),
        pytest.param("/var/lib/kubelet/pod-resources", "pod-resources", id="PodResources"),
        pytest.param("/var/lib/kubelet/pods", "root/var/lib/kubelet/pods", id="no sockets"),
        pytest.param("/etc/gophers", "root/etc/gophers", id="elsewhere"),
    ],
)
def test_folders_of_sockets_are_the_kubelets_own(node: SimNode, trace: Trace, path: str, place: str) -> None:
    change(node, trace, CreateFolder(path=path))
    (node.directory / place / "inside").touch()
    change(node, trace, RemoveFolder(path=path))

    assert not (node.directory / place).exists()
    assert kinds(trace) == ["file-created", "file-removed"]


def test_moved_file_keeps_its_content_and_takes_no_place_of_another(node: SimNode, trace: Trace) -> None:
    change(node, trace, CreateFile(path="/etc/a", content="text"))
    change(node, trace, CreateFile(path="/etc/b"))
    change(node, trace, MoveFile(path="/etc/a", to="/etc/c"))

    assert (node.files.place("/etc/c")).read_text() == "text"
    assert not node.files.place("/etc/a").exists()
    with pytest.raises(InputError, match=r"^node-1:/etc/b: is there already; remove it first$"):
        change(node, trace, MoveFile(path="/etc/c", to="/etc/b"))
    with pytest.raises(InputError, match=r"^node-1:/etc/a: cannot be moved to /etc/d: No such file or directory$"):
        change(node, trace, MoveFile(path="/etc/a", to="/etc/d"))
    assert kinds(trace) == ["file-created", "file-created", "file-moved"]


def test_dated_file_was_changed_so_long_ago(node: SimNode, trace: Trace) -> None:
    change(node, trace, CreateFile(path="/etc/a"))
    change(node, trace, DateFile.model_validate({"path": "/etc/a", "age": "1h"}))

    assert node.files.place("/etc/a").stat().st_mtime == pytest.approx(time.time() - 3600, abs=600)
    with pytest.raises(InputError, match=r"^node-1:/etc/b: cannot be dated: No such file or directory$"):
        change(node, trace, DateFile.model_validate({"path": "/etc/b", "age": "1s"}))
    assert kinds(trace) == ["file-created", "file-dated"]


def test_what_is_not_there_or_in_the_way_is_reported_by_its_path_on_the_node(node: SimNode, trace: Trace) -> None:
    change(node, trace, CreateFolder(path="/a"))

    with pytest.raises(InputError, match=r"^node-1:/a: cannot be created: File exists$"):
        change(node, trace, CreateFolder(path="/a"))
    with pytest.raises(InputError, match=r"^node-1:/b: cannot be removed: No such file or directory$"):
        change(node, trace, RemoveFolder(path="/b"))
    with pytest.raises(InputError, match=rf"^node-1:{SOCKETS}/p.sock: cannot be removed: No such file or directory$"):
        change(node, trace, RemoveFile(path=f"{SOCKETS}/p.sock"))
    assert kinds(trace) == ["file-created"]


def test_written_file_stays_the_same_file(node: SimNode, trace: Trace) -> None:
    change(node, trace, CreateFile(path="/etc/a", content="a longer text"))
    before = node.files.place("/etc/a").stat().st_ino
    change(node, trace, WriteFile(path="/etc/a", content="text"))

    assert (node.files.place("/etc/a").read_text(), node.files.place("/etc/a").stat().st_ino) == ("text", before)
    with pytest.raises(InputError, match=r"^node-1:/etc/b: cannot be written: No such file or directory$"):
        change(node, trace, WriteFile(path="/etc/b", content="text"))
    assert kinds(trace) == ["file-created", "file-written"]


def test_runtime_does_as_steps_say(node: SimNode, trace: Trace) -> None:
    cri = Cri(ManualClock())

    change_runtime(PauseRuntime(), node, cri, trace)
    with pytest.raises(InputError, match="the container runtime of node 'node-1' is paused already; resume it first"):
        change_runtime(PauseRuntime(), node, cri, trace)
    change_runtime(ResumeRuntime(), node, cri, trace)
    with pytest.raises(InputError, match="the container runtime of node 'node-1' is not paused; pause it first"):
        change_runtime(ResumeRuntime(), node, cri, trace)
    change_runtime(RefuseCri(calls=(CriCall.STATUS,)), node, cri, trace)

    assert (cri.of_status is None, cri.of_lists is None) == (False, True)
    assert kinds(trace) == ["runtime-paused", "runtime-resumed", "cri-refused"]


def test_link_of_the_node_leads_to_a_file_of_the_node(tmp_path: Path) -> None:
    files = [{"path": "/etc/a", "content": "text"}, {"path": "/srv/b/link", "link": "/etc/a"}]
    node = SimNode(NodeSpec.model_validate({"name": "node-1", "files": files}), tmp_path)

    node.create()

    assert node.files.place("/srv/b/link").read_text() == "text"


def test_file_with_content_is_no_link() -> None:
    with pytest.raises(ValueError, match="takes 'content' or 'link', not both"):
        NodeSpec.model_validate({"name": "node-1", "files": [{"path": "/a", "content": "x", "link": "/b"}]})


def test_node_that_loses_its_memory_keeps_what_is_on_disk(tmp_path: Path) -> None:
    files = [{"path": "/var/run/cdi/claim.json"}, {"path": "/etc/cdi/node.json"}]
    node = SimNode(NodeSpec.model_validate({"name": "node-1", "files": files}), tmp_path)
    node.create()

    node.lose_memory()

    assert list(node.files.place("/var/run/cdi").iterdir()) == []
    assert node.files.place("/etc/cdi/node.json").exists()


def test_node_that_is_closed_holds_no_file_of_its_machine(tmp_path: Path) -> None:
    spec = {"name": "node-1", "gpus": {"profile": "t4", "count": 1}}
    node = SimNode(NodeSpec.model_validate(spec), tmp_path)
    node.create()

    asyncio.run(node.close())

    opened = {os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()}
    assert [path for path in opened if path.startswith(str(tmp_path))] == []


async def test_kubelet_takes_no_pods_before_quick_plugins_are_back(trace: Trace) -> None:
    listed = DevicesListed("node-1", "example.com/gpu", ("gpu-0",), ())
    trace.append(listed)
    pauses = story_pauses("node-1", trace)
    # Longer than the quiet that ends a step.
    asyncio.get_running_loop().call_later(0.2, trace.append, listed)

    await pauses.last()

    assert kinds(trace) == [DevicesListed.kind] * 2


async def test_kubelet_waits_for_no_plugin_that_does_not_come_back(trace: Trace) -> None:
    trace.append(DevicesListed("node-1", "example.com/gpu", ("gpu-0",), ()))
    pauses = story_pauses("node-1", trace)

    async with asyncio.timeout(LIMIT_S):
        await pauses.before_next()
        await pauses.last()
