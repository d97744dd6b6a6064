"""A container whose mounts a plugin replaces by links while it starts: it is refused, and nothing outside changes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from simkubelet.apis.cdi import ContainerEdits, Hook
from simkubelet.devices.pod_devices import DeviceNode, Mount
from simkubelet.runtime import process_runtime
from simkubelet.runtime.container_runtime import ContainerStartError
from tests.support.decoy import Decoy

from .conftest import separated, supervised

pytestmark = pytest.mark.slow


@pytest.fixture
def decoy() -> Iterator[Decoy]:
    with tempfile.TemporaryDirectory(prefix="skd-", dir="/var/tmp") as folder:
        yield Decoy(Path(folder) / "decoy")


def replace_by_link(path: Path, target: Path) -> None:
    path.rename(path.with_name("was"))
    path.symlink_to(target)


PLACES = {
    "folder": ("data/own", ""),
    "folder above": ("data", "."),
    "file": ("files/f", "f"),
    "device": ("dev/gpu0", "f"),
}
"""Part of the node's root -> what of the decoy takes its place."""
ATTACK = "for file in /data/f /f /dev/gpu0 /dev/termination-log; do echo changed >>$file; done; rm -rf /data/*; true"


@pytest.mark.parametrize("part", [*PLACES, "message"])
async def test_part_that_became_a_link_is_not_mounted(
    node: Any, decoy: Decoy, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    for file in ("data/own/f", "files/f", "dev/gpu0"):
        node.write(file)
    (decoy.place.parent / "own").symlink_to(decoy.place)

    async def run(argv: Sequence[str], output: BinaryIO, descriptors: Sequence[int]) -> asyncio.subprocess.Process:
        [message] = node.folder.rglob("*.termination-log")
        own, other = PLACES.get(part, ("", "f"))
        replace_by_link(
            node.root / own if own else message, decoy.place.parent if other == "." else decoy.place / other
        )
        return await original(argv, output, descriptors)

    original = process_runtime._run
    monkeypatch.setattr(process_runtime, "_run", run)
    mounts = (Mount("/data/own", "/data", False), Mount("/files/f", "/f", False))

    with pytest.raises(ContainerStartError, match="replaced meanwhile"):
        await node.start("sh", "-c", ATTACK, mounts=mounts, devices=(DeviceNode("/dev/gpu0", "/dev/gpu0", "rwm"),))

    decoy.check()


@pytest.mark.parametrize("prefix", ["/oldroot", "../../oldroot", "/proc/1/root/oldroot"])
@pytest.mark.parametrize("what", ["folder", "file", "link"])
async def test_link_in_a_mount_leads_not_out_of_the_container(node: Any, decoy: Decoy, prefix: str, what: str) -> None:
    node.write("/other/f", "of the node")
    (node.root / "data").mkdir()
    (node.root / "data" / "l").symlink_to(f"{prefix}{decoy.place}")
    mounts = [Mount("/data", "/data", False)]
    if what == "link":
        words = ("nvidia-cdi-hook", "create-symlinks", "--link", "x::/data/l/x")
        node.hook = lambda env: ContainerEdits(hooks=(Hook("createContainer", words[0], words),))
    else:
        mounts.append(Mount("/other" if what == "folder" else "/other/f", "/data/l/new", False))

    with pytest.raises(ContainerStartError, match='error mounting to rootfs at "/data/l/'):
        await node.start("true", mounts=tuple(mounts))

    decoy.check()


@supervised
@pytest.mark.parametrize("is_link", [True, False])
async def test_folder_of_containers_that_a_plugin_replaced_is_a_start_error(
    node: Any, decoy: Decoy, is_link: bool
) -> None:
    place = node.folder / "containers"
    if is_link:
        place.symlink_to(decoy.place)
    else:
        place.touch()

    with pytest.raises(ContainerStartError, match='error mounting to rootfs at "/": '):
        await node.start("true")

    decoy.check()


@separated
async def test_link_in_a_mount_leads_to_a_place_of_the_container(node: Any) -> None:
    node.write("/other/f", "of the node")
    (node.root / "data").mkdir()
    (node.root / "data" / "l").symlink_to("/tmp")
    mounts = (Mount("/data", "/data", False), Mount("/other/f", "/data/l/new", False))

    assert await node.output("cat", "/tmp/new", mounts=mounts) == "of the node"


async def test_link_in_the_place_of_the_nodes_sys_shows_the_hosts(node: Any, decoy: Decoy) -> None:
    (node.root / "sys").symlink_to(decoy.place)

    assert await node.output("sh", "-c", "test -d /sys/kernel && test ! -e /sys/f") == ""
