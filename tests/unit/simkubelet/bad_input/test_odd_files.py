"""What is no socket where a socket should be, in the kubelet's folders: as the kubelet of 1.34 takes it."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from simkubelet.apis.grpcwire.client import ClientConnection, RpcError
from simkubelet.devices.checkpoint import CHECKPOINT_NAME
from simkubelet.devices.plugin_folder import PluginFolder
from simkubelet.model.errors import HostError
from simkubelet.model.version import version
from simkubelet.node_tree import PLUGINS_REGISTRY, POD_RESOURCES
from simkubelet.registration import plugin_client
from tests.support.node import FakePlugin, Node, running_node
from tests.support.silent_plugin import until_true
from tests.support.watched_plugin import WatchedPlugin


def make_socket(path: Path) -> None:
    """A socket that nobody listens on any more."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def elsewhere(short_folder: Path) -> Path:
    """A folder with the socket of somebody else."""
    folder = short_folder / "elsewhere"
    folder.mkdir()
    make_socket(folder / "theirs.sock")
    return folder


ODD: dict[str, Callable[[Path, Path], object]] = {
    "dangling.sock": lambda path, elsewhere: path.symlink_to(elsewhere / "nobody.sock"),
    "directory.sock": lambda path, elsewhere: path.mkdir(),
    "fifo.sock": lambda path, elsewhere: os.mkfifo(path),
    "file.sock": lambda path, elsewhere: path.write_text("not a socket"),
    "forbidden.sock": lambda path, elsewhere: (path.touch(), path.chmod(0)),
    "loop.sock": lambda path, elsewhere: path.symlink_to(path.name),
    "to-a-folder.sock": lambda path, elsewhere: path.symlink_to(elsewhere),
}
SOCKETS: dict[str, Callable[[Path, Path], object]] = {
    "left-behind.sock": lambda path, elsewhere: make_socket(path),
    "to-a-socket.sock": lambda path, elsewhere: path.symlink_to(elsewhere / "theirs.sock"),
}


@pytest.fixture
def odd_files(elsewhere: Path, plugin_folder: Path) -> Path:
    """The device plugin folder with one of each."""
    for name, make in {**ODD, **SOCKETS}.items():
        make(plugin_folder / name, elsewhere)
    return plugin_folder


async def test_start_removes_sockets_and_links_to_them_and_nothing_else(
    odd_files: Path, elsewhere: Path, make_node: Any
) -> None:
    node = await make_node()

    assert names(odd_files) == {*ODD, "kubelet.sock"}
    assert (elsewhere / "theirs.sock").is_socket()
    await node.plugin("d0")


async def test_start_before_1_33_removes_links_and_files_and_nothing_behind_them(
    odd_files: Path, elsewhere: Path, make_node: Any
) -> None:
    await make_node("1.32")

    assert names(odd_files) == {"directory.sock", "kubelet.sock"}
    assert (elsewhere / "theirs.sock").is_socket()


async def test_endpoint_that_is_not_a_socket_is_dialled_until_the_time_is_over(
    odd_files: Path, make_node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_client, "_DIAL_TIMEOUT_S", 0.2)
    node = await make_node()
    endpoints = [*ODD, "", ".", "nobody.sock", "file.sock/x"]

    refusals = await asyncio.gather(
        *(
            FakePlugin(node.folder, endpoint=endpoint, resource=f"example.com/{number}").register()
            for number, endpoint in enumerate(endpoints)
        ),
        return_exceptions=True,
    )

    assert {type(refusal) for refusal in refusals} == {RpcError}
    assert {refusal.text for refusal in refusals if isinstance(refusal, RpcError)} == {
        "failed to dial device plugin: context deadline exceeded"
    }
    await node.plugin("d0")


async def test_endpoint_may_be_a_link_to_a_socket_elsewhere(node: Node, elsewhere: Path) -> None:
    plugin = FakePlugin(elsewhere)
    node.plugins.append(plugin)
    plugin.list(["d0"])
    await plugin.serve()
    (node.folder / "link.sock").symlink_to(elsewhere / plugin.endpoint)

    await FakePlugin(node.folder, endpoint="link.sock").register()
    await node.until(lambda: node.of("devices-listed"))
    await node.tick()

    assert node.status() == (1, 1)


async def test_plugin_whose_socket_file_is_gone_keeps_its_connection(node: Node) -> None:
    plugin = await node.plugin("d0")
    (node.folder / plugin.endpoint).unlink()
    (node.folder / plugin.endpoint).mkdir()
    await node.tick()

    assert node.phase(await node.settled_pod(1)) == "Running"


@pytest.mark.parametrize("kind", ["directory.sock", "fifo.sock", "file.sock", "dangling.sock", "loop.sock"])
async def test_kubelet_whose_own_socket_cannot_be_made_does_not_start(
    short_folder: Path, plugin_folder: Path, elsewhere: Path, kind: str
) -> None:
    ODD[kind](plugin_folder / "kubelet.sock", elsewhere)
    if kind == "loop.sock":
        assert (plugin_folder / "kubelet.sock").is_symlink()

    with pytest.raises(BaseExceptionGroup) as failure:
        async with running_node(short_folder):
            pass

    (error,) = failure.value.exceptions
    assert isinstance(error, HostError)
    assert f"{plugin_folder / 'kubelet.sock'}: cannot listen" in str(error)


async def test_kubelet_that_cannot_serve_its_agents_gives_back_what_it_had(
    short_folder: Path, plugin_folder: Path
) -> None:
    (short_folder / POD_RESOURCES).touch()

    with pytest.raises(BaseExceptionGroup) as failure:
        async with running_node(short_folder):
            pass

    (error,) = failure.value.exceptions
    assert isinstance(error, HostError)
    assert str(short_folder / POD_RESOURCES / "kubelet.sock") in str(error)
    with socket.socket(socket.AF_UNIX) as caller:
        assert caller.connect_ex(str(plugin_folder / "kubelet.sock")) == errno.ECONNREFUSED


# The checkpoint


@pytest.mark.parametrize("kind", ["directory.sock", "dangling.sock", "loop.sock"])
async def test_checkpoint_that_is_not_a_file_counts_as_unreadable(
    plugin_folder: Path, elsewhere: Path, make_node: Any, kind: str
) -> None:
    ODD[kind](plugin_folder / CHECKPOINT_NAME, elsewhere)
    if kind == "loop.sock":
        (plugin_folder / CHECKPOINT_NAME).unlink()
        (plugin_folder / CHECKPOINT_NAME).symlink_to(CHECKPOINT_NAME)

    node = await make_node()
    await node.plugin("d0")
    await node.tick()
    name = await node.settled_pod(1)

    if kind == "directory.sock":
        message = re.sub(r"/\.\d+", "/.N", node.message(name))
        assert message == (
            "Pod was rejected: Allocate failed due to failed to write checkpoint file "
            f'"{CHECKPOINT_NAME}": rename {node.folder}/.N {node.folder / CHECKPOINT_NAME}: '
            "file exists, which is unexpected"
        )
    else:
        # A link is replaced by the file.
        assert node.phase(name) == "Running"
        assert not (node.folder / CHECKPOINT_NAME).is_symlink()
    assert not [name for name in names(node.folder) if name.startswith(".")]


# plugins_registry/


@pytest.fixture
def odd_registry(elsewhere: Path, short_folder: Path) -> Path:
    folder = short_folder / PLUGINS_REGISTRY
    folder.mkdir()
    for name, make in ODD.items():
        make(folder / name, elsewhere)
    return folder


@pytest.mark.parametrize("where", ["at-the-start", "later"])
async def test_registry_finds_sockets_and_links_to_them_among_odd_files(
    odd_registry: Path, elsewhere: Path, make_node: Any, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd = [odd_registry / name for name in names(odd_registry)]
    if where == "later":
        for path in odd:
            path.rename(elsewhere / path.name)
    node = await make_node()
    if where == "later":
        for path in odd:
            (elsewhere / path.name).rename(path)
    service = FakePlugin(node.folder)
    service.list(["d0"])
    await service.serve()
    endpoint = str(node.folder / service.endpoint)
    # Not in the folder that a link leads to: that one is watched once its link appears.
    plugin = WatchedPlugin(elsewhere.with_name("w.sock"), node.clock, name=service.resource, endpoint=endpoint)
    await plugin.serve()
    (odd_registry / "link.sock").symlink_to(plugin.socket)
    node.plugins += [service, plugin]

    await until_true(node, lambda: plugin.verdicts)

    assert plugin.verdicts == [(True, "")]
    # Nothing of the rest was taken for a plugin.
    assert not [record.getMessage() for record in caplog.records if "dial failed" in record.getMessage()]
    assert all(path.exists() or path.is_symlink() for path in odd)


async def test_registry_that_is_not_a_folder_is_a_host_error(short_folder: Path) -> None:
    (short_folder / PLUGINS_REGISTRY).touch()

    with pytest.raises(BaseExceptionGroup) as failure:
        async with running_node(short_folder):
            pass

    (error,) = failure.value.exceptions
    assert isinstance(error, HostError)
    assert f"{short_folder / PLUGINS_REGISTRY}: cannot be watched" in str(error)


@pytest.fixture
def outside(short_folder: Path) -> Iterator[Path]:
    """A folder that is not below the node's."""
    with tempfile.TemporaryDirectory(dir=short_folder.parent) as folder:
        yield Path(folder)


async def connections_of(server: socket.socket) -> int:
    server.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count


async def test_socket_outside_of_the_node_is_never_reached(
    node: Node, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_client, "_DIAL_TIMEOUT_S", 0.2)
    (node.folder / "link.sock").symlink_to(outside / "s")
    (node.folder / "folder").symlink_to(outside)
    climbed = f"../../{outside.name}/s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(outside / "s"))
        server.listen()

        refusals = await asyncio.gather(
            *(FakePlugin(node.folder, endpoint=one).register() for one in (climbed, "link.sock", "folder/s")),
            return_exceptions=True,
        )

        assert await connections_of(server) == 0
    assert {str(refusal) for refusal in refusals} == {
        "rpc error: code = Unknown desc = failed to dial device plugin: context deadline exceeded"
    }


async def test_socket_that_is_swapped_for_a_link_is_never_followed_outside(node: Node, outside: Path) -> None:
    plugin = FakePlugin(node.folder)
    node.plugins.append(plugin)
    await plugin.serve()
    own, link, swapped = node.folder / plugin.endpoint, node.folder / "link", node.folder / "swapped.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(outside / "s"))
        server.listen()
        stop = threading.Event()

        def swap() -> None:
            while not stop.is_set():
                for target in (outside / "s", own):
                    link.symlink_to(target)
                    link.rename(swapped)

        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            for _ in range(50):
                connection = ClientConnection(str(swapped), within=node.folder.parent.resolve())
                with suppress(RpcError):
                    await connection.open()
                connection.close()
        finally:
            stop.set()
            swapping.join()

        assert await connections_of(server) == 0


@pytest.mark.parametrize("release", ["1.32", "1.34"])
def test_plugin_folder_that_became_a_link_is_not_cleaned(outside: Path, plugin_folder: Path, release: str) -> None:
    folder = PluginFolder(plugin_folder)
    (outside / "theirs").write_text("precious")
    make_socket(outside / "theirs.sock")
    plugin_folder.rmdir()
    plugin_folder.symlink_to(outside)

    with pytest.raises(HostError, match="leads to another folder now; remove the link"):
        folder.clean(version(release))

    assert names(outside) == {"theirs", "theirs.sock"}


@pytest.mark.parametrize("kind", ["fifo", "endless", "outside"])
async def test_checkpoint_that_is_no_file_of_the_node_is_not_read(
    outside: Path, plugin_folder: Path, kind: str
) -> None:
    path = plugin_folder / CHECKPOINT_NAME
    (outside / "theirs").write_text("precious")
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "endless" else outside / "theirs")

    assert await PluginFolder(plugin_folder).load(version("1.34")) is None


async def test_long_checkpoint_keeps_nobody_waiting(plugin_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    entry = '{"PodUID":"a","ContainerName":"b","ResourceName":"c","DeviceIDs":{"0":["x"]},"AllocResp":""}'
    entries = ",".join([entry] * 50_000)
    text = f'{{"Data":{{"PodDeviceEntries":[{entries}],"RegisteredDevices":{{}}}},"Checksum":1}}'
    (plugin_folder / CHECKPOINT_NAME).write_text(text)

    loading = asyncio.create_task(PluginFolder(plugin_folder).load(version("1.34")))
    turns = 0
    while not loading.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns > 10
    assert loading.result() is None
    assert "checkpoint is corrupted" in caplog.text
