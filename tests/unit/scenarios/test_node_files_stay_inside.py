"""Whatever a story and a plugin do with links, renames and folders, nothing changes beside the node's folder.

The oracle is a decoy tree beside it. `attack` is what a plugin does itself, as it may write anywhere in the folder.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.backends.world.node import SimNode
from scenarios.story.specs import MANIFESTS, NodeSpec
from scenarios.story.verbs.file_action import (
    AddStaticPod,
    CreateFile,
    CreateFolder,
    DateFile,
    FileAction,
    MoveFile,
    RemoveFile,
    RemoveFolder,
    RemoveStaticPod,
    WriteFile,
)
from scenarios.trace.trace import Trace
from simkubelet.cluster import Objects, Store, WallTime
from simkubelet.devices import CHECKPOINT_NAME
from simkubelet.model.clock import ManualClock
from simkubelet.model.errors import InputError
from simkubelet.model.pod import pod_from_manifest
from simkubelet.node_tree import DEVICE_PLUGINS
from simkubelet.pods.volumes import Volumes
from tests.support.decoy import Decoy
from tests.support.stories import SOCKETS, change

HERE = "{here}"
"""Stands for the folder that has the node's folder and the decoy."""
FOLDERS = st.sampled_from(["", "/a", "/a/b", "/etc", "/run", "/var/run", SOCKETS, MANIFESTS, "/var/lib/kubelet"])
NAMES = st.sampled_from(["a", "b", "d", "f", "l", "deep", "p.yaml", "device-plugins", "x.json"])
PATHS = st.builds(lambda *parts: "/".join(parts), FOLDERS, NAMES) | st.builds(
    lambda *parts: "/".join(parts), FOLDERS, NAMES, NAMES
)
UPS = st.integers(0, 9).map("../".__mul__)
TARGETS = st.one_of(
    PATHS,
    st.builds(lambda ups, rest: f"{ups}{rest}", UPS, st.sampled_from(["decoy", "decoy/d", "decoy/f", "decoy/l", "a"])),
    st.sampled_from([f"{HERE}/decoy", f"{HERE}/decoy/f", f"{HERE}/decoy/d", "l", ".", "..", "/proc/self/cwd"]),
)
PARTS = st.sampled_from(["root", "root/a", "root/etc", "root/run", "view", "view/etc", "device-plugins", "root/var"])


def pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }


STEPS = st.one_of(
    st.builds(lambda path: CreateFile(path=path, content="new"), PATHS),
    st.builds(lambda path: WriteFile(path=path, content="other"), PATHS),
    st.builds(lambda path: DateFile.model_validate({"path": path, "age": "1h"}), PATHS),
    st.builds(lambda path, to: MoveFile(path=path, to=to), PATHS, PATHS),
    st.builds(lambda path: RemoveFile(path=path), PATHS),
    st.builds(lambda path: CreateFolder(path=path), PATHS),
    st.builds(lambda path: RemoveFolder(path=path), PATHS),
    st.just(AddStaticPod.model_validate({"manifest": pod("p")})),
    st.just(RemoveStaticPod(pod="p")),
)
VOLUMES = st.tuples(PATHS, st.sampled_from(["DirectoryOrCreate", "FileOrCreate", "Directory", "File"]))
LINKS = st.tuples(st.just("link"), PATHS, TARGETS)
ATTACKS = st.one_of(
    st.tuples(st.just("replace"), PARTS, TARGETS),
    st.tuples(st.just("rename"), PARTS, PARTS),
)
DEEDS = st.lists(st.one_of(STEPS, STEPS, LINKS, ATTACKS, VOLUMES, st.just("memory lost")), max_size=12)


@contextmanager
def beside_decoy() -> Iterator[tuple[SimNode, Decoy]]:
    with tempfile.TemporaryDirectory(prefix="sk-in-") as folder:
        here = Path(folder).resolve()
        decoy = Decoy(here / "decoy")
        node = SimNode(NodeSpec.model_validate({"name": "node-1"}), here / "node")
        node.create()
        node.plugin_folder.mkdir()
        node.files.open_view()
        yield node, decoy


def perform(node: SimNode, deed: Any) -> None:
    here = str(node.directory.parent)
    with suppress(InputError):
        match deed:
            case FileAction():
                change(node, Trace(), deed)
            case "memory lost":
                node.lose_memory()
            case ("link", path, target):
                node.files.create_link(path, target.replace(HERE, here))
            case ("replace" | "rename" as how, part, other):
                attack(node.directory, how, part, other.replace(HERE, here))
            case (path, type_):
                mount(node, path, type_)


def attack(folder: Path, how: str, part: str, other: str) -> None:
    """Put a link in the place of a part of the node's folder, or move it."""
    with suppress(OSError):
        if how == "replace":
            if (folder / part).exists():
                (folder / part).rename(folder / f"was-{len(list(folder.iterdir()))}")
            (folder / part).symlink_to(other)
        else:
            (folder / part).rename(folder / other)


def mount(node: SimNode, path: str, type_: str) -> None:
    volume = {"name": "v", "hostPath": {"path": path, "type": type_}}
    container = {"name": "c", "image": "none", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    manifest = {"metadata": {"name": "p"}, "spec": {"containers": [container], "volumes": [volume]}}
    cluster = Store(Objects(WallTime(ManualClock())), lambda event: None)
    Volumes(node.directory, cluster).set_up(pod_from_manifest(manifest))


@given(deeds=DEEDS)
def test_nothing_beside_the_nodes_folder_changes(deeds: list[Any]) -> None:
    with beside_decoy() as (node, decoy):
        for deed in deeds:
            perform(node, deed)

        decoy.check()


OUT = ("link", "/etc/l", "../../../decoy")


@pytest.mark.parametrize(
    "deed",
    [
        pytest.param(RemoveFolder(path="/etc/l/d"), id="removeFolder"),
        pytest.param(CreateFolder(path="/etc/l/new"), id="createFolder"),
        pytest.param(CreateFile(path="/etc/l/new"), id="createFile"),
        pytest.param(WriteFile(path="/etc/l/f", content="x"), id="writeFile"),
        pytest.param(DateFile.model_validate({"path": "/etc/l/f", "age": "1h"}), id="dateFile"),
        pytest.param(MoveFile(path="/etc/l/f", to="/etc/h"), id="moveFile from"),
        pytest.param(MoveFile(path="/etc/g", to="/etc/l/g"), id="moveFile to"),
        pytest.param(RemoveFile(path="/etc/l/f"), id="removeFile"),
        pytest.param(("link", "/etc/l/new", "x"), id="files"),
        pytest.param(("/etc/l/new", "DirectoryOrCreate"), id="DirectoryOrCreate"),
        pytest.param(("/etc/l/new", "FileOrCreate"), id="FileOrCreate"),
    ],
)
def test_verb_does_not_go_through_a_link_out_of_the_node(deed: Any) -> None:
    with beside_decoy() as (node, decoy):
        perform(node, ("link", "/etc/g", "x"))
        # A real node's `/decoy`: there is none.
        perform(node, OUT)
        assert (node.root / "etc" / "l" / "f").exists()

        perform(node, deed)

        decoy.check()


@pytest.mark.parametrize("name", ["manifests", "run/cdi"])
def test_folder_that_is_a_link_out_of_the_node_is_not_used(name: str) -> None:
    with beside_decoy() as (node, decoy):
        path = MANIFESTS if name == "manifests" else "/run/cdi"
        perform(node, ("link", path, "../" * path.count("/") + "../decoy/d"))

        perform(node, AddStaticPod.model_validate({"manifest": pod("p")}))
        perform(node, "memory lost")

        decoy.check()


def swapping(place: Path, other: Path, is_over: threading.Event) -> None:
    """Exchange a folder and a link for each other, as fast as this machine can."""
    away = place.with_name("away")
    while not is_over.is_set():
        with suppress(OSError):
            place.rename(away)
            place.symlink_to(other)
            place.unlink()
            away.rename(place)


@pytest.mark.parametrize(
    "deed",
    [
        pytest.param(lambda n: CreateFile(path=f"/s/new-{n}"), id="createFile"),
        pytest.param(lambda _: WriteFile(path="/s/f", content="x"), id="writeFile"),
        pytest.param(lambda _: DateFile.model_validate({"path": "/s/f", "age": "1h"}), id="dateFile"),
        pytest.param(lambda _: RemoveFolder(path="/s/d"), id="removeFolder"),
        pytest.param(lambda _: RemoveFile(path="/s/f"), id="removeFile"),
        pytest.param(lambda n: (f"/s/m-{n}", "DirectoryOrCreate"), id="DirectoryOrCreate"),
    ],
)
def test_folder_that_becomes_a_link_while_a_step_runs_leads_nowhere_else(deed: Callable[[int], Any]) -> None:
    with beside_decoy() as (node, decoy):
        (node.root / "s").mkdir()
        is_over = threading.Event()
        swapper = threading.Thread(target=swapping, args=(node.root / "s", decoy.place, is_over))
        swapper.start()
        try:
            for number in range(150):
                perform(node, deed(number))
        finally:
            is_over.set()
            swapper.join()

        decoy.check()


@pytest.mark.parametrize("part", ["logs", "logs/pods"])
def test_logs_are_not_those_that_a_link_leads_to(part: str) -> None:
    with beside_decoy() as (node, decoy):
        kept = node.directory / "logs" / "kubelet.log"
        kept.write_text("of the node")
        (node.directory / "logs" / "other.log").symlink_to(decoy.place / "f")
        place = node.directory / part
        if place.exists():
            place.rename(node.directory / "was")
        place.symlink_to(decoy.place)

        assert node.logs == (() if part == "logs" else (kept,))


@pytest.mark.parametrize(
    "replace", [Path.mkdir, os.mkfifo, Path.touch, lambda path: None], ids=["dir", "fifo", "file", "none"]
)
def test_logs_of_which_a_program_moved_the_folder_are_none(replace: Callable[[Path], object]) -> None:
    with beside_decoy() as (node, _):
        folder = node.directory / "logs"
        folder.rename(node.directory / "was")
        replace(folder)

        assert node.logs == ()


def test_checkpoint_that_a_program_made_giant_is_not_read() -> None:
    with beside_decoy() as (node, _):
        file = node.directory / DEVICE_PLUGINS / CHECKPOINT_NAME
        file.parent.mkdir(exist_ok=True)
        with file.open("wb") as giant:
            giant.truncate(1 << 40)

        assert node.checkpoint_text() is None
