"""Paths of a tree: where they lead, as the kernel says with RESOLVE_IN_ROOT, and that they lead nowhere else."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet._internal.file_tree import FileTree
from simkubelet.node_tree import node_tree
from tests.support.decoy import Decoy, make_deep_folder

_OPENAT2 = 437
_NO_MAGICLINKS, _IN_ROOT = 0x02, 0x10
_libc = ctypes.CDLL(None, use_errno=True)

NAMES = st.sampled_from(["a", "b", "c", "..", "."])
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)
LINKS = st.tuples(st.sampled_from(["", "/", "/proc/self/root/"]), PATHS).map("".join)
ENTRIES = st.dictionaries(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join),
    st.one_of(st.just("folder"), st.just("file"), LINKS.map(lambda target: f"->{target}")),
    max_size=7,
)


def openat2(root: Path, path: str) -> tuple[int, int] | int:
    """The device and number of what the kernel finds below a root, or the number of its error."""
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGICLINKS)
    folder = os.open(root, os.O_PATH)
    try:
        found = _libc.syscall(_OPENAT2, folder, os.fsencode(path), how, len(how))
    finally:
        os.close(folder)
    if found < 0:
        return ctypes.get_errno()
    status = os.fstat(found)
    os.close(found)
    return status.st_dev, status.st_ino


def make(root: Path, entries: dict[str, str]) -> None:
    for path, kind in sorted(entries.items()):
        place = root / path
        if any(above.is_symlink() or above.is_file() for above in [place, *place.parents] if above != root):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            continue
        if kind == "folder":
            place.mkdir()
        elif kind == "file":
            place.touch()
        else:
            place.symlink_to(kind.removeprefix("->"))


def found_by_walk(tree: FileTree, path: str) -> tuple[int, int] | int | None:
    try:
        status = tree.stat(path)
    except OSError as error:
        return error.errno
    return status.st_dev, status.st_ino


@given(entries=ENTRIES, path=PATHS)
def test_walk_finds_what_openat2_finds_below_a_root(entries: dict[str, str], path: str) -> None:
    with tempfile.TemporaryDirectory(prefix="ft-") as folder:
        root = Path(folder, "root")
        root.mkdir()
        make(root, entries)
        known = openat2(root, path)
        if known == errno.ENOSYS:
            pytest.skip("the kernel has no openat2")

        assert found_by_walk(FileTree(root), path) == known
        assert found_by_walk(FileTree(Path(folder), "root"), path) == known


def read(tree: FileTree, path: str) -> str:
    with tree.open(path) as file:
        text: str = file.read()
    return text


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "node" / "root" / "etc").mkdir(parents=True)
    return tmp_path / "node"


def test_links_of_the_simulator_lead_to_what_lies_beside_the_root(base: Path) -> None:
    (base / "machine" / "dev").mkdir(parents=True)
    (base / "machine" / "dev" / "gpu").write_text("g")
    (base / "device-plugins").mkdir()
    (base / "root" / "dev").symlink_to(base / "machine" / "dev")
    (base / "root" / "etc" / "plugins").symlink_to(base / "device-plugins")
    (base / "root" / "etc" / "here").symlink_to(base / "root" / "etc")
    (base / "root" / "etc" / "own").write_text("o")
    tree = node_tree(base)

    assert [read(tree, path) for path in ("/dev/gpu", "/dev/../etc/own", "/etc/here/own")] == ["g", "o", "o"]
    tree.open("/etc/plugins/a", "x").close()
    assert tree.names("/var/lib/kubelet/device-plugins") == ["a"]
    assert tree.real_path("/etc/plugins/a") == (base / "device-plugins" / "a").resolve()


def test_folders_of_the_kubelet_need_no_folder_above_them(base: Path) -> None:
    (base / "device-plugins").mkdir()
    (base / "root" / "etc" / "l").symlink_to("../var/lib/kubelet/device-plugins")
    tree = node_tree(base)

    tree.open("/etc/l/a", "x").close()

    assert (base / "device-plugins" / "a").is_file()
    assert not tree.has("/var/lib/kubelet/pods")
    with pytest.raises(FileNotFoundError):
        tree.names("/var/lib/other")


@pytest.mark.parametrize(
    "swapped",
    [pytest.param("root", id="the root"), pytest.param("device-plugins", id="a folder beside it")],
)
def test_part_of_the_base_that_has_become_a_link_is_not_followed(base: Path, tmp_path: Path, swapped: str) -> None:
    decoy = Decoy(tmp_path / "decoy")
    if (base / swapped).exists():
        (base / "root" / "etc").rmdir()
        (base / swapped).rmdir()
    (base / swapped).symlink_to(decoy.place)
    tree = node_tree(base)

    for path in ("/f", "/var/lib/kubelet/device-plugins/f"):
        with pytest.raises(OSError):  # noqa: PT011  # of several kinds
            tree.open(path)
    decoy.check()


def test_only_a_regular_file_is_opened(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(base / "root" / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(base / "root")
        listener.bind("s")
    tree = node_tree(base)

    for path in ("/fifo", "/s", "/etc"):
        with pytest.raises(OSError):  # noqa: PT011  # of several kinds
            tree.open(path)
    for path in ("/a\0b", "/etc/a\0b"):
        with pytest.raises(OSError, match="Invalid argument"):
            tree.open(path)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda tree: tree.open("/etc/l", "x"), id="create"),
        pytest.param(lambda tree: tree.make_folder("/etc/l"), id="create a folder"),
        pytest.param(lambda tree: tree.make_folder("/etc/l/x", exist_ok=True), id="create below"),
        pytest.param(lambda tree: tree.remove_folder("/etc/l"), id="remove a folder"),
        pytest.param(lambda tree: tree.rename("/etc/l/f", tree, "/etc/g"), id="move"),
    ],
)
def test_link_that_leads_nowhere_is_no_folder(base: Path, act: Callable[[FileTree], object]) -> None:
    (base / "root" / "etc" / "l").symlink_to("missing/folder")
    tree = node_tree(base)

    with pytest.raises(OSError):  # noqa: PT011  # of several kinds
        act(tree)

    assert tree.names("/") == ["etc"]
    assert tree.names("/etc") == ["l"]


def test_links_in_a_circle_and_to_themselves_are_too_many(base: Path) -> None:
    (base / "root" / "a").symlink_to("b")
    (base / "root" / "b").symlink_to("a")
    (base / "root" / "c").symlink_to("c")

    for path in ("/a", "/c/d"):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            node_tree(base).stat(path)
    assert stat.S_ISLNK(node_tree(base).stat("/a", follow=False).st_mode)


@pytest.mark.parametrize("path", ["x/" * 2047 + "x", "x/" * 2048, "x/" * 500_000, "x" * 256])
def test_path_that_is_too_long_for_the_kernel_is_too_long_for_a_tree(base: Path, path: str) -> None:
    error = openat2(base, path)

    assert isinstance(error, int)
    with pytest.raises(OSError, match=os.strerror(error)):
        FileTree(base).stat(path)


def test_path_of_a_million_names_is_not_made(base: Path) -> None:
    with pytest.raises(OSError, match="File name too long"):
        FileTree(base).make_folder("/x" * 1_000_000)

    assert not (base / "x").exists()


def test_half_a_character_is_in_no_path(base: Path) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        FileTree(base).stat("/\ud800")


def test_links_lead_no_deeper_than_a_path_does(base: Path) -> None:
    make_deep_folder(base / "deep")
    make_deep_folder(base / "lower")
    (base / "deeper").symlink_to("/deep" + "/d" * 1200)
    tree = FileTree(base)
    tree.rename("/lower", tree, "/deeper/lower")

    with pytest.raises(OSError, match="File name too long"):
        tree.stat("/deeper/lower" + "/d" * 1200)
    tree.remove_folder("/deep")


def test_deep_folder_is_removed_with_what_is_in_it(base: Path, tmp_path: Path) -> None:
    decoy = Decoy(tmp_path / "decoy")
    make_deep_folder(base / "root" / "a")
    for path in ("a", "a/d", "a/d/d"):
        (base / "root" / path / "f").touch()
        (base / "root" / path / "l").symlink_to(decoy.place)
        (base / "root" / path / "empty").mkdir(mode=0o1555)

    node_tree(base).remove_folder("/a")

    assert node_tree(base).names("/") == ["etc"]
    decoy.check()


def test_names_that_a_program_has_made_are_in_no_way(base: Path) -> None:
    for number in range(3):
        (base / "root" / "a" / f".{os.getpid()}-{number}" / "b" / "c").mkdir(parents=True)

    node_tree(base).remove_folder("/a")

    assert node_tree(base).names("/") == ["etc"]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_walk_leaves_no_descriptor_open(base: Path) -> None:
    tree = node_tree(base)
    before = open_files()

    tree.open("/a/b/c", "x", make=True).close()
    tree.clear("/a")
    with pytest.raises(OSError, match="Is a directory"):
        tree.open("/etc/../a")

    assert open_files() == before


def test_folders_that_a_program_has_shut_are_removed() -> None:
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        # Only who may do this is not shut out as he is: root with capabilities.
        with contextlib.suppress(OSError):
            os.chown(base, 65534, 65534)
            os.seteuid(65534)
        try:
            root = base / "root"
            (root / "a" / "shut" / "in it" / "more").mkdir(parents=True)
            (root / "a" / "shut" / "in it" / "file").touch()
            for folder in ("a/shut/in it/more", "a/shut/in it", "a/shut", "a"):
                (root / folder).chmod(0o555 if folder == "a" else 0)

            node_tree(base).remove_folder("/a")

            assert list(root.iterdir()) == []
        finally:
            os.seteuid(user)
