"""Claims are prepared for pods: what is checked and in which order, what drivers are asked, what their answers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.dra_node import DRIVER, DraWorld, claim_object, pod_object


async def prepared(world: DraWorld, pod: dict[str, Any]) -> str:
    """The error of a prepare; empty for none."""
    return str((await world.manager("prepare", pod=pod)).get("error", ""))


@pytest.mark.parametrize(
    ("pod", "claim", "error"),
    [
        pytest.param(
            pod_object("p1", gpu=""), None, 'pod "default/pod-p1": ResourceClaim not created yet', id="not made yet"
        ),
        pytest.param(
            pod_object("p1", "c1"),
            None,
            'fetch ResourceClaim c1: resourceclaims.resource.k8s.io "c1" not found',
            id="missing",
        ),
        pytest.param(
            pod_object("p1", gpu="gen"),
            claim_object("gen", "p1", owner="p2"),
            "ResourceClaim default/gen was not created for pod default/pod-p1 (pod is not owner)",
            id="other owner",
        ),
        pytest.param(
            pod_object("p1", "c1"),
            claim_object("c1", "p2"),
            "pod pod-p1 (p1) is not allowed to use ResourceClaim c1 (c1-uid)",
            id="not reserved",
        ),
        pytest.param(
            pod_object("p1", "c1"),
            claim_object("c1", "p1", drivers=None),
            "ResourceClaim c1: not allocated",
            id="not allocated",
        ),
        pytest.param(
            pod_object("p1", "c1"),
            claim_object("c1", "p1", drivers=(DRIVER, "other.example.com")),
            "DRA driver other.example.com is not registered",
            id="driver missing",
        ),
        pytest.param(
            pod_object("p1", "c1"), claim_object("c1", "p1", drivers=("",)), "DRA driver name is empty", id="no driver"
        ),
    ],
)
async def test_refused_pod_leaves_nothing(
    world: DraWorld, pod: dict[str, Any], claim: dict[str, Any] | None, error: str
) -> None:
    if claim is not None:
        await world.manager("put", kind="ResourceClaim", object=claim)

    assert await prepared(world, pod) == f"prepare dynamic resources: {error}"

    assert (await world.manager("might_need_unprepare", uid="p1"))["value"] is False
    assert (await world.drive("calls"))["calls"] == []


async def test_entry_without_claim_needs_nothing(world: DraWorld) -> None:
    assert await prepared(world, pod_object("p1", gpu=None)) == ""

    assert (await world.drive("calls"))["calls"] == []


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        pytest.param(
            {"mode": "error", "code": "internal", "message": "boom"},
            "NodePrepareResources: rpc error: code = Internal desc = boom",
            id="call",
        ),
        pytest.param(
            {"mode": "claim_error", "message": "broken"},
            "NodePrepareResources failed for ResourceClaim c1: broken",
            id="claim",
        ),
        pytest.param({"mode": "skip"}, "NodePrepareResources skipped 1 ResourceClaims", id="skipped"),
        pytest.param(
            {"mode": "unknown"},
            "NodePrepareResources returned result for unknown claim UID c1-uid-unknown",
            id="unknown",
        ),
    ],
)
async def test_failed_driver_keeps_the_pods_reference(world: DraWorld, behaviour: dict[str, Any], error: str) -> None:
    await world.put_claim("c1", "p1")
    await world.drive("set", rpc="prepare", **behaviour)

    assert await prepared(world, pod_object("p1", "c1")) == f"prepare dynamic resources: {error}"
    assert (await world.manager("might_need_unprepare", uid="p1"))["value"] is True

    await world.drive("set", rpc="prepare")
    assert await prepared(world, pod_object("p1", "c1")) == ""


async def test_replaced_claim_of_the_same_name_is_refused(world: DraWorld) -> None:
    await world.put_claim("c1", "p1")
    await prepared(world, pod_object("p1", "c1"))
    await world.put_claim("c1", "p2", uid="other")

    error = await prepared(world, pod_object("p2", "c1"))

    assert error == (
        "prepare dynamic resources: old ResourceClaim with same name c1 and different UID c1-uid still exists "
        "(previous pod force-deleted?!)"
    )


async def test_claims_of_a_pod_are_one_call(world: DraWorld) -> None:
    for name in ("c1", "c2"):
        await world.put_claim(name, "p1")

    assert await prepared(world, pod_object("p1", "c1", "c2")) == ""

    [call] = (await world.drive("calls"))["calls"]
    assert call["claims"] == ["default/c1/c1-uid", "default/c2/c2-uid"]


async def test_claim_without_devices_is_prepared_once(world: DraWorld) -> None:
    await world.put_claim("c1", "p1", "p2", drivers=())

    assert [await prepared(world, pod_object(pod, "c1")) for pod in ("p1", "p2")] == ["", ""]

    assert (await world.drive("calls"))["calls"] == []
    assert world.node.manager.cache.find("default", "c1").is_prepared  # type: ignore[union-attr]


async def test_driver_without_socket_fails_the_call_at_once(world: DraWorld) -> None:
    await world.put_claim("c1", "p1")
    await world.drive("stop", endpoint="dra.sock")
    await world.until_connected(DRIVER, str(world.folder / "dra.sock"), is_connected=False)

    error = await prepared(world, pod_object("p1", "c1"))

    reason = f"transport: Error while dialing: dial unix {world.folder}/dra.sock: connect: no such file or directory"
    assert error == (
        "prepare dynamic resources: NodePrepareResources: rpc error: code = Unavailable desc = connection error: "
        f'desc = "{reason}"'
    )


@pytest.mark.parametrize(
    ("release", "is_known"),
    [("1.34.3", False), ("1.34.4", True), ("1.35.0", False), ("1.35.1", True), ("1.36", True)],
)
async def test_claim_after_a_prepared_one_is_forgotten_by_some_patches(
    make_world: Callable[[str], DraWorld], release: str, is_known: bool
) -> None:
    world, pod = make_world(release), pod_object("p2", "shared", "own")
    await world.manager("start")
    await world.serve()
    await world.put_claim("shared", "p1", "p2")
    await world.put_claim("own", "p2")
    await prepared(world, pod_object("p1", "shared"))

    assert await prepared(world, pod) == ""

    answer = await world.manager("get_resources", pod=pod, container="c")
    if is_known:
        assert answer["cdi_devices"] == ["example.com/class=shared", "example.com/class=own"]
    else:
        assert answer["error"] == "internal error: unable to get claim info for ResourceClaim own"
    assert len((await world.drive("calls"))["calls"]) == 1 + is_known


@pytest.mark.parametrize(
    ("minor", "count"),
    [("1.34.11", 2), ("1.34.12", 1), ("1.35", 2), ("1.36.3", 2), ("1.36.4", 1), ("1.37", 1)],
)
async def test_restart_doubles_devices_until_the_fix_of_each_minor(
    make_world: Callable[[str], DraWorld], minor: str, count: int
) -> None:
    world, pod = make_world(minor), pod_object("p1", "c1")
    await world.manager("start")
    await world.serve()
    await world.put_claim("c1", "p1")
    await prepared(world, pod)

    await world.manager("restart")
    await world.register()
    await prepared(world, pod)

    answer = await world.manager("get_resources", pod=pod, container="c")
    assert answer["cdi_devices"] == ["example.com/class=c1"] * count


async def test_containers_get_the_devices_of_their_requests(world: DraWorld) -> None:
    devices = [
        {"pool": "pool", "device": "dev-0", "requests": ["small"], "cdi": ["v/c=0", "v/c=1"]},
        {"pool": "pool", "device": "dev-1", "requests": ["large"], "cdi": ["v/c=2"]},
        {"pool": "pool", "device": "dev-2", "cdi": ["v/c=3"]},
        {"pool": "pool", "device": "dev-3", "requests": ["small"]},
    ]
    await world.drive("set", rpc="prepare", devices={"*": devices})
    await world.put_claim("c1", "p1")
    pod = pod_object("p1", "c1")
    pod["spec"]["containers"] = [
        {"name": request, "resources": {"claims": [{"name": "c1", "request": request}]}}
        for request in ("small", "large", "none")
    ]
    await prepared(world, pod)

    got = {
        name: (await world.manager("get_resources", pod=pod, container=name))["cdi_devices"]
        for name in ("small", "large", "none")
    }

    assert got == {"small": ["v/c=0", "v/c=1", "v/c=3"], "large": ["v/c=2", "v/c=3"], "none": ["v/c=3"]}


async def test_pod_resources_lists_the_ids_of_earlier_devices_too(world: DraWorld) -> None:
    devices = [{"pool": "pool", "device": f"dev-{n}", "cdi": [f"v/c={n}"]} for n in range(2)]
    await world.drive("set", rpc="prepare", devices={"c1": devices})
    await world.put_claim("c1", "p1")
    pod = pod_object("p1", "c1")
    await prepared(world, pod)

    answer = await world.manager("dynamic_resources", pod=pod, container="c")

    assert answer["claims"] == [
        {
            "claim": "c1",
            "namespace": "default",
            "devices": [
                {"driver": DRIVER, "pool": "pool", "device": "dev-0", "cdi_devices": ["v/c=0"]},
                {"driver": DRIVER, "pool": "pool", "device": "dev-1", "cdi_devices": ["v/c=0", "v/c=1"]},
            ],
        }
    ]


@pytest.mark.parametrize(("minor", "where"), [("1.35", ""), ("1.36", " in namespace default")])
async def test_container_of_an_unprepared_claim_is_refused(
    make_world: Callable[[str], DraWorld], minor: str, where: str
) -> None:
    world = make_world(minor)
    await world.manager("start")

    answer = await world.manager("get_resources", pod=pod_object("p1", "c1"), container="c")

    assert answer["error"] == f"internal error: unable to get claim info for ResourceClaim c1{where}"


@pytest.mark.parametrize(("minor", "kind"), [("1.35", "pod"), ("1.36", "Pod")])
async def test_claim_of_another_owner_is_refused_in_the_words_of_the_minor(
    make_world: Callable[[str], DraWorld], minor: str, kind: str
) -> None:
    world = make_world(minor)
    await world.manager("start")
    await world.put_claim("c1", "p1", owner="p2")

    answer = await world.manager("prepare", pod=pod_object("p1", c1="c1"))

    assert answer["error"].endswith(f"was not created for {kind} default/pod-p1 ({kind} is not owner)")


@pytest.mark.parametrize(("minor", "is_created"), [("1.35", False), ("1.36", True)])
async def test_container_may_ignore_an_entry_without_its_claim(
    make_world: Callable[[str], DraWorld], minor: str, is_created: bool
) -> None:
    world = make_world(minor)
    await world.manager("start")
    pod = pod_object("p1", later="")

    answer = await world.manager("get_resources", pod=pod, container="without")

    assert answer["ok"] is is_created
