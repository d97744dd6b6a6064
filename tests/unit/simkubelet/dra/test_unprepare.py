"""Claims are unprepared with their last pod, and for pods that are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.dra_node import DRIVER, DraWorld, pod_object
from tests.support.patience import until

MakeWorld = Callable[..., DraWorld]


async def begun(world: DraWorld, *pods: str) -> None:
    """Have one claim prepared for pods."""
    if not world.node.is_running:
        await world.manager("start")
        await world.serve()
    await world.put_claim("c1", *pods)
    for pod in pods:
        assert (await world.manager("prepare", pod=pod_object(pod, "c1")))["ok"]
    await world.drive("calls")


async def unprepared(world: DraWorld, pod: dict[str, Any]) -> str:
    """The error of an unprepare; empty for none."""
    return str((await world.manager("unprepare", pod=pod)).get("error", ""))


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        pytest.param(
            {"mode": "error", "code": "unknown", "message": "boom"},
            "NodeUnprepareResources: rpc error: code = Unknown desc = boom",
            id="call",
        ),
        pytest.param(
            {"mode": "claim_error", "message": "busy"},
            "NodeUnprepareResources failed for ResourceClaim c1: busy",
            id="claim",
        ),
        pytest.param({"mode": "skip"}, "NodeUnprepareResources skipped 1 ResourceClaims", id="skipped"),
        pytest.param(
            {"mode": "unknown"},
            "NodeUnprepareResources returned result for unknown claim UID c1-uid-unknown",
            id="unknown",
        ),
    ],
)
async def test_failed_driver_is_asked_again(world: DraWorld, behaviour: dict[str, Any], error: str) -> None:
    await begun(world, "p1")
    await world.drive("set", rpc="unprepare", **behaviour)

    assert await unprepared(world, pod_object("p1", "c1")) == f"unprepare dynamic resources: {error}"

    await world.drive("set", rpc="unprepare")
    assert await unprepared(world, pod_object("p1", "c1")) == ""
    assert (await world.manager("might_need_unprepare", uid="p1"))["value"] is False


async def test_driver_that_is_gone_holds_up_the_end(world: DraWorld) -> None:
    await begun(world, "p1")
    await world.manager("deregister", driver=DRIVER, endpoint=str(world.folder / "dra.sock"))

    error = await unprepared(world, pod_object("p1", "c1"))

    assert error == f"unprepare dynamic resources: DRA driver {DRIVER} is not registered"


@pytest.mark.parametrize(("minor", "calls"), [("1.36", 1), ("1.37", 0)])
async def test_refused_pod_unprepares_for_others_until_1_37(make_world: MakeWorld, minor: str, calls: int) -> None:
    world = make_world(minor)
    await begun(world, "p1")

    assert not (await world.manager("prepare", pod=pod_object("p2", "c1")))["ok"]
    assert await unprepared(world, pod_object("p2", "c1")) == ""

    assert len((await world.drive("calls"))["calls"]) == calls


@pytest.mark.parametrize(("minor", "error"), [("1.36", "ResourceClaim not created yet"), ("1.37", "")])
async def test_lost_claim_status_blocks_the_end_until_1_37(make_world: MakeWorld, minor: str, error: str) -> None:
    world = make_world(minor)
    await begun(world, "p1")

    found = await unprepared(world, pod_object("p1", gpu=""))

    assert found == (error and f'unprepare dynamic resources: pod "default/pod-p1": {error}')


@pytest.mark.parametrize(
    ("minor", "error"), [("1.36", ""), ("1.37", "prepare dynamic resources: ResourceClaim c1 is being unprepared")]
)
async def test_pod_joins_a_leaving_claim_until_1_37(make_world: MakeWorld, minor: str, error: str) -> None:
    world = make_world(minor)
    await begun(world, "p1")
    await world.put_claim("c1", "p1", "p2")
    await world.drive("set", rpc="unprepare", mode="error")
    await unprepared(world, pod_object("p1", "c1"))

    answer = await world.manager("prepare", pod=pod_object("p2", "c1"))

    assert answer.get("error", "") == error


async def test_reconciliation_unprepares_for_pods_that_are_gone(world: DraWorld) -> None:
    await begun(world, "p1", "p2")

    await world.manager("reconcile", active=["p2"])
    assert (await world.drive("calls"))["calls"] == []

    await world.manager("reconcile", active=[])
    assert [call["rpc"] for call in (await world.drive("calls"))["calls"]] == ["unprepare"]
    assert (await world.manager("checkpoint"))["text"].endswith('\\"ClaimInfoStateList\\":[]}","Checksum":2361995144}')


async def test_manager_reconciles_each_minute(world: DraWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(world, "p1")
    monkeypatch.setattr(world.node.manager, "_active_pods", frozenset)

    await world.clock.advance(59.9)
    assert (await world.manager("might_need_unprepare", uid="p1"))["value"] is True

    await world.clock.advance(0.2)
    await until(lambda: not world.node.manager.cache.of_pod("p1"))  # type: ignore[arg-type]
