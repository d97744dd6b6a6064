"""The tap between a kubelet and its container runtime: what is refused, and what passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from scenarios.tap.tap import CriTap
from simkubelet.runtime.cri_call import CriCall
from tests.support.tapped import ByteServer, channel

RUNTIME = "/runtime.v1.RuntimeService/"


@pytest.fixture
async def runtime(folder: Path) -> AsyncIterator[ByteServer]:
    served = ByteServer(folder / "containerd.sock")
    await served.start()
    yield served
    await served.stop()


@pytest.fixture
async def tap(folder: Path, runtime: ByteServer) -> AsyncIterator[CriTap]:
    # One that ended with its node leaves its socket.
    (folder / "cri.sock").touch()
    made = CriTap(folder / "cri.sock", runtime.socket)
    made.start()
    yield made
    await made.close()


@pytest.fixture
async def kubelet(tap: CriTap, folder: Path) -> AsyncIterator[Any]:
    async with channel(folder / "cri.sock") as made:
        yield made


async def answers(kubelet: Any, *names: str) -> list[str]:
    """Of each call the message, or the code of its error."""
    told = []
    for name in names:
        try:
            told.append((await kubelet.unary_unary(RUNTIME + name)(b"asked")).decode())
        except grpc.aio.AioRpcError as error:
            told.append(error.code().name)
    return told


async def test_refused_calls_do_not_reach_the_runtime_and_others_do(
    kubelet: Any, tap: CriTap, runtime: ByteServer
) -> None:
    tap.refuse([CriCall.LIST_CONTAINERS])

    assert await answers(kubelet, "ListContainers", "ListPodSandbox", "Status", "Version") == [
        "UNKNOWN",
        "asked",
        "asked",
        "asked",
    ]
    assert [method for method, _ in runtime.seen] == [
        RUNTIME + name for name in ("ListPodSandbox", "Status", "Version")
    ]


async def test_calls_pass_again_when_nothing_is_refused(kubelet: Any, tap: CriTap) -> None:
    tap.refuse(list(CriCall))
    refused = await answers(kubelet, *CriCall)
    tap.refuse([])

    assert (refused, await answers(kubelet, *CriCall)) == (["UNKNOWN"] * 3, ["asked"] * 3)
