"""What a container is shown, and how much of it."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from simkubelet.apis import cdi
from simkubelet.apis.cdi import ContainerEdits, Hook
from simkubelet.devices.pod_devices import DeviceNode, DeviceRunOptions, Mount
from simkubelet.runtime import container_setup
from simkubelet.runtime.container_runtime import ContainerStartError
from simkubelet.runtime.container_setup import no_hook, set_up

NOTHING = DeviceRunOptions({}, (), (), {}, ())
MANY = 20_000
LINKS = tuple(word for number in range(MANY) for word in ("--link", f"lib.so.1::/opt/{number}"))


@pytest.mark.parametrize(
    ("options", "edits"),
    [
        pytest.param(
            DeviceRunOptions({}, tuple(Mount("/data", f"/data/{number}", False) for number in range(MANY)), (), {}, ()),
            ContainerEdits(),
            id="mounts",
        ),
        pytest.param(
            DeviceRunOptions({}, (Mount("/data", "/data", False),) * MANY, (), {}, ()),
            ContainerEdits(),
            id="mounts at one place",
        ),
        pytest.param(
            DeviceRunOptions(
                {}, (), tuple(DeviceNode("/dev/gpu0", f"/dev/{number}", "rwm") for number in range(MANY)), {}, ()
            ),
            ContainerEdits(),
            id="devices",
        ),
        pytest.param(
            DeviceRunOptions({}, (), (), {}, ()),
            ContainerEdits(hooks=(Hook("createContainer", "/x", ("nvidia-cdi-hook", "create-symlinks", *LINKS)),)),
            id="links",
        ),
        pytest.param(
            DeviceRunOptions({}, (), (), {}, ()),
            ContainerEdits(hooks=(Hook("createContainer", "/x", ("ldconfig",)),) * MANY),
            id="hooks",
        ),
    ],
)
def test_container_that_is_shown_too_much_is_refused(
    options: DeviceRunOptions, edits: ContainerEdits, tmp_path: Path
) -> None:
    (tmp_path / "root/data").mkdir(parents=True)
    (tmp_path / "root/dev").mkdir()
    (tmp_path / "root/dev/gpu0").touch()

    with pytest.raises(ContainerStartError, match="more than 1,000 mounts, devices and links"):
        set_up(tmp_path, {}, options, ContainerEdits(), (lambda _env: edits) if edits.hooks else no_hook, tmp_path)


@pytest.fixture
def of_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the host where its programs have their sockets, a link to one beside it, and a plain file there."""
    run = tmp_path / "host/run"
    (run / "user/1000").mkdir(parents=True)
    (tmp_path / "host/file").touch()
    for path in (run / "user/1000/bus", tmp_path / "host/agent"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    (tmp_path / "host/link").symlink_to(run / "user/1000/bus")
    monkeypatch.setattr(container_setup, "_OF_PROGRAMS", (run,))
    return tmp_path / "host"


@pytest.mark.parametrize("name", ["run", "run/user/1000", "run/user/1000/bus", "agent", "link", ""])
def test_sockets_of_the_hosts_programs_are_not_there(name: str, of_host: Path, tmp_path: Path) -> None:
    (tmp_path / "node/root").mkdir(parents=True)
    path = str(of_host / name)
    options = DeviceRunOptions({}, (Mount(path, "/x", True),), (), {}, ())

    setup = set_up(tmp_path / "node", {}, options, ContainerEdits(), no_hook, tmp_path)

    # What a node does not have is made, a folder.
    assert setup.binds["/x"].source == str(tmp_path / f"node/root{path}")
    assert Path(setup.binds["/x"].source).is_dir()


@pytest.mark.parametrize("name", ["session", "session/simkubelet", "session/simkubelet/one/kubeconfig", "link"])
def test_folder_of_clusters_is_not_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = tmp_path / "session/simkubelet/one"
    (cluster / "node-1/root").mkdir(parents=True)
    for file in (cluster / "kubeconfig", cluster / "node-1/file"):
        file.touch()
    (tmp_path / "link").symlink_to(cluster)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "session"))
    options = DeviceRunOptions(
        {}, (Mount(f"{tmp_path}/{name}", "/x", True), Mount(f"{cluster}/node-1/file", "/y", True)), (), {}, ()
    )

    setup = set_up(cluster / "node-1", {}, options, ContainerEdits(), no_hook, tmp_path)

    assert setup.binds["/x"].source == str(cluster / f"node-1/root{tmp_path}/{name}")
    assert setup.binds["/y"].source == str(cluster / "node-1/file")


@pytest.mark.parametrize("name", ["self/environ", "self/root", "thread-self/cwd/..", "1", "net/../1/maps"])
def test_processes_of_the_host_are_not_there(name: str, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    options = DeviceRunOptions({}, (Mount(f"/proc/{name}", "/x", True),), (), {}, ())

    setup = set_up(tmp_path, {}, options, ContainerEdits(), no_hook, tmp_path)

    assert Path(setup.binds["/x"].source).is_relative_to(tmp_path)


def test_other_files_of_proc_are_there(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    options = DeviceRunOptions({}, (Mount("/proc/sys/kernel", "/x", True),), (), {}, ())

    setup = set_up(tmp_path, {}, options, ContainerEdits(), no_hook, tmp_path)

    assert setup.binds["/x"].source == "/proc/sys/kernel"


def test_files_of_the_host_are_there(of_host: Path, tmp_path: Path) -> None:
    (tmp_path / "node/root").mkdir(parents=True)
    options = DeviceRunOptions({}, (Mount(str(of_host / "file"), "/x", True),), (), {}, ())

    assert set_up(tmp_path / "node", {}, options, ContainerEdits(), no_hook, tmp_path).binds["/x"].source == str(
        of_host / "file"
    )


def test_specification_with_a_socket_of_the_host_is_carried_out_without_it(of_host: Path, tmp_path: Path) -> None:
    (tmp_path / "node/root").mkdir(parents=True)
    edits = ContainerEdits(mounts=(cdi.Mount(str(of_host / "agent"), "/agent", ()),))

    setup = set_up(tmp_path / "node", {}, DeviceRunOptions({}, (), (), {}, ()), edits, no_hook, tmp_path)

    assert (setup.binds, setup.limits) == (
        {},
        [f"mount /agent: {of_host}/agent is the host's, with sockets of its programs, so it is left out"],
    )


@pytest.mark.parametrize(
    "options",
    [
        DeviceRunOptions({}, (Mount("/a" * 2_000_000, "/x", True),), (), {}, ()),
        DeviceRunOptions({}, (Mount("/usr", "/a" * 2_000_000, True),), (), {}, ()),
        DeviceRunOptions({}, (), (DeviceNode("/a" * 2_000_000, "/dev/x", "rw"),), {}, ()),
    ],
    ids=["of the node", "of the container", "of a device"],
)
def test_path_of_a_million_names_is_refused_at_once(options: DeviceRunOptions, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()

    with pytest.raises(ContainerStartError, match="file name too long") as refused:
        set_up(tmp_path, {}, options, ContainerEdits(), no_hook, tmp_path)

    assert len(str(refused.value)) < 1000
    assert list((tmp_path / "root").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("a\0b", "invalid argument", id="NUL"),
        pytest.param("b" * 300, "file name too long", id="long name"),
        pytest.param("loop/x", "too many levels of symbolic links", id="loop"),
        pytest.param("x", "no such file or directory", id="missing"),
    ],
)
def test_path_that_cannot_be_looked_at_fails_its_container(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "node/root").mkdir(parents=True)
    (tmp_path / "loop").symlink_to("loop")
    path = f"{tmp_path}/{name}"
    device = DeviceNode(path, "/dev/x", "rw")
    asked: list[tuple[DeviceRunOptions, ContainerEdits, str]] = [
        (NOTHING, ContainerEdits(mounts=(cdi.Mount(path, "/x", ()),)), f'"{path}" to rootfs at "/x": stat {path}: '),
        (NOTHING, ContainerEdits(device_nodes=(cdi.DeviceNode("/dev/x", path),)), f'stat CDI host device "{path}": '),
        (DeviceRunOptions({}, (), (device,), {}, ()), ContainerEdits(), f"lstat {path}: "),
    ]

    for options, edits, about in asked:
        with pytest.raises(ContainerStartError, match=re.escape(about + words)):
            set_up(tmp_path / "node", {}, options, edits, no_hook, tmp_path)


def test_folder_of_devices_that_cannot_be_read_fails_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    (tmp_path / "node/root").mkdir(parents=True)
    (tmp_path / "devices").mkdir()
    monkeypatch.setattr(Path, "iterdir", refuse)
    options = DeviceRunOptions({}, (), (DeviceNode(f"{tmp_path}/devices", "/dev/x", "rw"),), {}, ())

    with pytest.raises(ContainerStartError, match=f"open {tmp_path}/devices: permission denied$"):
        set_up(tmp_path / "node", {}, options, ContainerEdits(), no_hook, tmp_path)
