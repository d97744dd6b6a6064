"""What steps change on a simulated node from outside: its files and folders, its container runtime."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scenarios.backends.sim.changes import change_file, change_runtime
from scenarios.backends.world.node import SimNode
from scenarios.story.node_spec import NodeSpec
from scenarios.story.verbs.action import (
    AnyFileAction,
    CreateFile,
    CreateFolder,
    MoveFile,
    RemoveFile,
    RemoveFolder,
    WriteFile,
)
from scenarios.story.verbs.node_action import PauseRuntime, RefuseCri, ResumeRuntime
from scenarios.trace.snapshot import Snapshot
from scenarios.trace.trace import Trace
from simkubelet._internal.sandbox import check_sandbox, sandboxed
from simkubelet.model.clock import ManualClock
from simkubelet.model.errors import HostError, InputError
from simkubelet.runtime.cri import Cri
from simkubelet.runtime.cri_call import CriCall

SOCKETS = "/var/lib/kubelet/device-plugins"


@pytest.fixture
def node(tmp_path: Path) -> SimNode:
    made = SimNode(NodeSpec(name="node-1"), tmp_path)
    made.create()
    return made


@pytest.fixture
def trace() -> Trace:
    return Trace()


def change(node: SimNode, trace: Trace, action: AnyFileAction) -> None:
    change_file(action, node, Snapshot(nodes={}, pods={}, plugins=()), trace)


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


def test_what_is_not_there_or_in_the_way_is_told_by_its_path_on_the_node(node: SimNode, trace: Trace) -> None:
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


class Watcher:
    """A program in a view of a node that says what it sees there, each time it is asked."""

    def __init__(self, node: SimNode) -> None:
        (node.directory / "device-plugins").mkdir()
        view = node.view({SOCKETS: node.directory / "device-plugins"})
        argv = sandboxed(["sh", "-c", "while read paths; do ls -d $paths 2>/dev/null; echo .; done"], view)
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.sees("/")

    def sees(self, *paths: str) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(*paths, file=self.process.stdin, flush=True)
        return [line.rstrip() for line in iter(self.process.stdout.readline, ".\n") if line]


@pytest.fixture
def can_see() -> None:
    try:
        check_sandbox()
    except HostError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.usefixtures("can_see")
def test_program_in_a_view_sees_what_changes_wherever_it_lies(tmp_path: Path, trace: Trace) -> None:
    files = ["/etc/skt/burrow/g1", "/dev/sktFAKE0", {"path": "/etc/skt.yaml", "content": "a"}]
    files.append({"path": "/etc/skt-link", "link": "/etc/skt.yaml"})
    spec = NodeSpec.model_validate({"name": "node-1", "files": files})
    node = SimNode(spec, tmp_path / "node-1", changed=["/usr/local/skt-new/file"])
    node.create()
    watcher = Watcher(node)
    with watcher.process:
        own = ("/etc/skt/burrow/g1", "/dev/sktFAKE0", "/etc/skt.yaml", "/etc/skt-link")
        beginning = (*own, "/etc/passwd", "/dev/null")
        assert watcher.sees(*beginning) == sorted(beginning)

        new = ("/etc/skt/g2", "/etc/skt-g3", "/dev/sktFAKE1", "/usr/local/skt-new/file", "/var/run/skt")
        for path in new:
            change(node, trace, CreateFile(path=path))
        assert watcher.sees(*new) == sorted(new)

        for action in (
            *(RemoveFile(path=path) for path in ("/etc/skt/g2", "/dev/sktFAKE0", "/dev/sktFAKE1", "/etc/skt-g3")),
            MoveFile(path="/etc/skt.yaml", to="/etc/skt/moved.yaml"),
            RemoveFolder(path="/etc/skt/burrow"),
            CreateFolder(path="/etc/skt-folder"),
        ):
            change(node, trace, action)
        left = ["/etc/skt-folder", "/etc/skt/moved.yaml"]
        assert watcher.sees(*new[:3], *beginning[:3], *left) == left
        assert watcher.process.stdin is not None
        watcher.process.stdin.close()
    assert not [path for path in ("/etc/skt", "/dev/sktFAKE1", "/usr/local/skt-new") if Path(path).exists()]


def test_link_of_the_node_leads_to_a_file_of_the_node(tmp_path: Path) -> None:
    files = [{"path": "/etc/a", "content": "text"}, {"path": "/srv/b/link", "link": "/etc/a"}]
    node = SimNode(NodeSpec.model_validate({"name": "node-1", "files": files}), tmp_path)

    node.create()

    assert node.files.place("/srv/b/link").read_text() == "text"


def test_file_with_content_is_no_link() -> None:
    with pytest.raises(ValueError, match="takes 'content' or 'link', not both"):
        NodeSpec.model_validate({"name": "node-1", "files": [{"path": "/a", "content": "x", "link": "/b"}]})


def test_node_that_is_closed_holds_no_file_of_its_machine(tmp_path: Path) -> None:
    spec = {"name": "node-1", "gpus": {"profile": "t4", "count": 1}}
    node = SimNode(NodeSpec.model_validate(spec), tmp_path)
    node.create()

    node.close()

    opened = {os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()}
    assert [path for path in opened if path.startswith(str(tmp_path))] == []
