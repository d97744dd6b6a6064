"""A kubelet with pods that use claims; the driver is served by the test, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from simkubelet.apis import podresources as v1
from simkubelet.cluster.objects.objects import Key
from simkubelet.dra.checkpoint import CHECKPOINT_NAME
from simkubelet.model.pod import Pod
from simkubelet.model.pod_status import Waiting
from simkubelet.model.version import EXTENDED_CLAIMS
from simkubelet.node_tree import PLUGINS_REGISTRY
from simkubelet.node_tree import POD_RESOURCES as POD_RESOURCES_FOLDER
from tests.support.claim_node import CLAIMS, ENDPOINT, REGISTRATION, SLICES, ClaimNode, claim_node
from tests.support.dra_node import DRIVER
from tests.support.grpc_peers import POD_RESOURCES, calls
from tests.support.patience import until


@pytest.fixture
async def bare(short_folder: Path) -> AsyncIterator[ClaimNode]:
    """A node of 1.34 without a driver."""
    async with claim_node(short_folder) as made:
        yield made


@pytest.fixture
async def world(bare: ClaimNode) -> ClaimNode:
    """The same with a driver that the kubelet is connected to."""
    await bare.register()
    return bare


def failures(world: ClaimNode, name: str = "p") -> list[str]:
    events = world.node.pod_events(name)
    return [message for reason, message in events if reason == "FailedPrepareDynamicResources"]


async def test_pod_gets_the_cdi_devices_of_its_claims(world: ClaimNode) -> None:
    pod = await world.run("c1", "c2")

    assert world.cdi_devices(pod) == ("example.com/class=c1", "example.com/class=c2")
    assert await world.calls() == ["prepare c1"]
    assert not failures(world)


async def test_claims_are_unprepared_after_the_containers_end(world: ClaimNode) -> None:
    await world.run("c1")
    await world.calls()

    await world.node.delete("p")

    assert await world.calls() == ["unprepare c1"]
    assert not list(world.dra.cache)


async def test_shared_claim_is_unprepared_with_its_last_pod(world: ClaimNode) -> None:
    first, second = world.pod("c1", name="first"), world.pod("c1", name="second")
    world.claim("c1", first, second)
    for pod in (first, second):
        world.bind(pod)
        await world.node.until(lambda: world.node.phase(pod.name) == "Running")  # noqa: B023 - used at once

    await world.node.delete("first")
    assert await world.calls() == ["prepare c1"]

    await world.node.delete("second")
    assert await world.calls() == ["unprepare c1"]


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        pytest.param(None, 'fetch ResourceClaim c1: resourceclaims.resource.k8s.io "c1" not found', id="missing"),
        pytest.param({"drivers": None}, "ResourceClaim c1: not allocated", id="not-allocated"),
        pytest.param(
            {"drivers": ("other.example.com",)}, "DRA driver other.example.com is not registered", id="no-driver"
        ),
    ],
)
async def test_pod_whose_claim_cannot_be_prepared_is_tried_each_minute(
    world: ClaimNode, claim: dict[str, Any] | None, reason: str
) -> None:
    pod = world.pod("c1")
    if claim is not None:
        world.claim("c1", pod, **claim)
    world.bind(pod)
    await world.node.until(lambda: failures(world))

    text = f"Failed to prepare dynamic resources: prepare dynamic resources: {reason}"
    assert failures(world) == [text]
    assert world.node.phase("p") == "Pending"
    assert world.node.container("p").state.reason == "ContainerCreating"  # type: ignore[union-attr]

    if claim is not None:
        world.node.store.objects.remove(Key(CLAIMS, "default", "c1"))
    world.claim("c1", pod)
    await world.node.clock.advance(59)
    assert world.node.phase("p") == "Pending"
    await world.node.clock.advance(1)
    await world.node.until(lambda: world.node.phase("p") == "Running")


async def test_pod_waits_for_the_claim_of_its_template(world: ClaimNode) -> None:
    pod = world.pod(gpu="")
    world.bind(pod)
    await world.node.until(lambda: failures(world))
    assert failures(world)[0].endswith('pod "default/p": ResourceClaim not created yet')

    world.claim("p-gpu-x", pod, owner=pod.uid)
    key = Key("pods", "default", "p")
    body = world.node.store.objects.get(key)
    assert body is not None
    statuses = [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]
    world.node.store.objects.replace(key, {**body, "status": {**body["status"], "resourceClaimStatuses": statuses}})
    await world.node.clock.advance(60)
    await world.node.until(lambda: world.node.phase("p") == "Running")

    assert world.cdi_devices(pod) == ("example.com/class=p-gpu-x",)
    stored = world.node.store.objects.get(key)
    assert stored is not None
    assert stored["status"]["resourceClaimStatuses"] == statuses


async def test_driver_that_fails_holds_the_pods_end_back(world: ClaimNode) -> None:
    await world.run("c1")
    world.answer("unprepare", "claim_error", "busy")
    await world.calls()
    pod = world.node.store.pod_named("p")
    assert pod is not None

    world.node.store.delete_pod(pod.uid)
    await world.node.until(lambda: world.node.container("p").state.__class__.__name__ == "Terminated")
    assert world.node.phase("p") == "Running"

    await world.node.clock.advance(10)
    world.answer("unprepare")
    await world.pass_until(lambda: world.node.store.pod_named("p") is None)
    assert set(await world.calls()) == {"unprepare c1"}


async def test_driver_that_is_gone_leaves_its_pods_terminating(world: ClaimNode) -> None:
    pod = await world.run("c1")
    await world.driver.end(REGISTRATION)
    await world.pass_until(lambda: not world.dra.plugins.of_driver(DRIVER))

    world.node.store.delete_pod(pod.uid)
    await world.node.clock.advance(120)
    assert world.node.phase("p") == "Running"

    await world.driver.end(ENDPOINT)
    await world.register()
    await world.pass_until(lambda: world.node.store.pod_named("p") is None)


async def test_restarted_kubelet_knows_prepared_claims(world: ClaimNode) -> None:
    pod = await world.run("c1")
    await world.calls()

    await world.node.kubelet.restart()
    await world.until_connected()
    await world.node.kill("p")
    await world.pass_until(lambda: world.node.container("p").restart_count == 1)

    assert world.cdi_devices(pod) == ("example.com/class=c1",)
    assert await world.calls() == []
    await world.node.delete("p")
    assert await world.calls() == ["unprepare c1"]


@pytest.mark.parametrize("minor", ["1.34", "1.37"])
async def test_rebooted_node_prepares_claims_again(short_folder: Path, minor: str) -> None:
    async with claim_node(short_folder, minor) as world:
        await world.register()
        pod = await world.run("c1")
        await world.node.kubelet.reboot()
        await world.until_connected()
        await world.pass_until(lambda: world.node.container("p").restart_count, 20)

        assert await world.calls() == ["prepare c1", "prepare c1"]
        # kubernetes/kubernetes#140471, fixed in 1.37.
        assert len(world.cdi_devices(pod)) == (2 if minor == "1.34" else 1)


async def test_claim_of_a_pod_that_went_unseen_is_unprepared_within_a_minute(world: ClaimNode) -> None:
    pod = await world.run("c1")
    await world.node.kubelet.stop()
    world.node.store.delete_pod(pod.uid, 0)
    await world.node.kubelet.start()
    await world.until_connected()

    await world.pass_until(lambda: not list(world.dra.cache), 10)

    assert (await world.calls())[-1] == "unprepare c1"


async def test_kubelet_without_dra_manager_starts_pods_with_claims(short_folder: Path) -> None:
    async with claim_node(short_folder, "1.33") as world:
        pod = await world.run("c1")

        assert world.dra is None
        assert world.cdi_devices(pod) == ()
        assert not (world.root / CHECKPOINT_NAME).exists()


async def test_kubelet_ends_on_a_checkpoint_that_is_corrupt(world: ClaimNode) -> None:
    await world.node.kubelet.stop()
    (world.root / CHECKPOINT_NAME).write_text("garbage")

    await world.node.kubelet.start()

    assert not world.node.kubelet.is_running
    crash = world.node.of("kubelet-crashed")[-1]
    assert crash.reason.startswith("failed to run Kubelet: create ResourceClaim cache: GetOrCreate() on checkpoint")
    (world.root / CHECKPOINT_NAME).unlink()
    await world.node.kubelet.start()
    assert world.node.kubelet.is_running


async def test_connection_to_each_instance_of_a_driver_is_an_event(world: ClaimNode) -> None:
    new, socket = "plugins/drv/dra-new.sock", f"{PLUGINS_REGISTRY}/drv-new-reg.sock"
    await world.driver.serve(new, ["v1"])
    world.announce(socket, str(world.root / new))
    await world.pass_until(lambda: len(world.node.of("driver-connected")) == 2)
    await world.driver.end(REGISTRATION)
    await world.pass_until(lambda: world.node.of("driver-disconnected"))

    assert [event.endpoint for event in world.node.of("driver-connected")] == ["drv/dra.sock", "drv/dra-new.sock"]
    assert [event.endpoint for event in world.node.of("driver-disconnected")] == ["drv/dra.sock"]
    assert world.is_connected


async def test_connection_that_the_kubelet_makes_again_is_no_registration(world: ClaimNode) -> None:
    def connections() -> list[str]:
        return [event.kind for event in world.node.events if event.kind.startswith("driver-")]

    # A driver that was started again listens before the kubelet has compared the sockets of registrations.
    await world.driver.end(ENDPOINT)
    await world.driver.serve(ENDPOINT, ["v1"])
    await until(lambda: len(connections()) == 3)
    assert connections() == ["driver-connected", "driver-disconnected", "driver-reconnected"]

    await world.driver.end(REGISTRATION)
    world.announce(REGISTRATION, str(world.root / ENDPOINT))
    await world.pass_until(lambda: len(world.node.of("driver-connected")) == 2)

    assert connections()[3:] == ["driver-disconnected", "driver-connected"]


async def test_driver_names_its_endpoint_by_a_path_of_the_node(bare: ClaimNode) -> None:
    await bare.register("plugins/d/dra.sock", "/var/lib/kubelet/plugins/d/dra.sock")

    pod = await bare.run("c1")

    assert bare.cdi_devices(pod) == ("example.com/class=c1",)


async def test_driver_outside_the_node_is_not_reached(bare: ClaimNode, tmp_path: Path) -> None:
    outside = bare.root.parent / f"{bare.root.name}-outside.sock"
    await bare.driver.serve(f"../{outside.name}", ["v1"])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await bare.register("plugins/x.sock", str(outside))

    assert bare.dra.plugins.of_driver(DRIVER)
    assert not bare.is_connected


async def test_container_of_a_claim_that_is_not_known_is_not_created(world: ClaimNode) -> None:
    await world.run("c1")
    for info in list(world.dra.cache):
        world.dra.cache.remove(info.namespace, info.name)

    await world.node.kill("p")
    await world.pass_until(lambda: world.node.container("p").state.__class__.__name__ == "Waiting")

    message = "internal error: unable to get claim info for ResourceClaim c1"
    assert world.node.container("p").state == Waiting("CreateContainerConfigError", message)


async def test_pod_resources_list_the_claims_of_containers(world: ClaimNode) -> None:
    await world.run("c1")

    async with calls(world.root / POD_RESOURCES_FOLDER / "kubelet.sock", POD_RESOURCES) as api:
        answer = await api.Get(v1.GetPodResourcesRequest(pod_name="p", pod_namespace="default"))
        listed = await api.List(v1.ListPodResourcesRequest())

    (container,) = answer.pod_resources.containers
    (claim,) = container.dynamic_resources
    assert (claim.claim_name, claim.claim_namespace) == ("c1", "default")
    (device,) = claim.claim_resources
    assert (device.driver_name, device.pool_name, device.device_name) == (DRIVER, "pool", "dev-0")
    assert [one.name for one in device.cdi_devices] == ["example.com/class=c1"]
    assert list(listed.pod_resources) == [answer.pod_resources]


async def test_health_of_claimed_devices_is_in_the_status(short_folder: Path) -> None:
    from simkubelet.apis import drahealth

    async with claim_node(short_folder, feature_gates={"ResourceHealthStatus": True}) as world:
        await world.register(ENDPOINT, None, "health")
        await world.run("c1")

        def health() -> list[tuple[str, str, str]]:
            found = world.node.container("p").resources
            return [(one.name, each.resource_id, each.health) for one in found for each in one.resources]

        await world.pass_until(lambda: health() == [("claim:c1", "example.com/class=c1", "Unknown")])
        await world.pass_until(lambda: world.driver._health)
        device = drahealth.DeviceIdentifier(pool_name="pool", device_name="dev-0")
        reports = [drahealth.DeviceHealth(device=device, health=drahealth.UNHEALTHY)]
        world.driver.send_health(drahealth.NodeWatchResourcesResponse(devices=reports))
        await world.node.until(lambda: health() == [("claim:c1", "example.com/class=c1", "Unhealthy")])


async def test_slices_of_the_node_are_wiped_at_start_and_after_the_driver_is_gone(world: ClaimNode) -> None:
    objects = world.node.store.objects

    def publish(name: str, node: str) -> None:
        objects.create(
            Key(SLICES, "", name), {"metadata": {"name": name}, "spec": {"driver": DRIVER, "nodeName": node}}
        )

    def names() -> list[str]:
        return [one["metadata"]["name"] for one in objects.all_of(SLICES)]

    publish("ours", "node-1")
    publish("other", "node-2")
    await world.driver.stop()
    await world.until_connected(False)
    await world.node.clock.advance(15)
    assert names() == ["other", "ours"]
    await world.pass_until(lambda: names() == ["other"], 5)

    publish("ours", "node-1")
    await world.node.kubelet.restart()
    await world.pass_until(lambda: names() == ["other"])


@pytest.mark.parametrize(
    ("minor", "gate", "is_admitted"), [("1.35", True, True), ("1.36", True, True), ("1.36", False, False)]
)
async def test_extended_resource_comes_from_a_claim(
    short_folder: Path, minor: str, gate: bool, is_admitted: bool
) -> None:
    async with claim_node(short_folder, minor, feature_gates={EXTENDED_CLAIMS: gate}) as world:
        await world.register()
        # A plugin that has gone leaves its resource behind, with no device.
        await world.node.plugin()
        pod = extended_pod(world)

        world.bind(pod)
        await world.node.until(lambda: world.node.phase("p") != "Pending")

        assert world.node.phase("p") == ("Running" if is_admitted else "Failed")
        if is_admitted:
            assert world.cdi_devices(pod) == ("example.com/class=own",)
            assert world.cdi_devices(pod, "without") == ()
            async with calls(world.root / POD_RESOURCES_FOLDER / "kubelet.sock", POD_RESOURCES) as api:
                answer = await api.Get(v1.GetPodResourcesRequest(pod_name="p", pod_namespace="default"))
            listed = {
                one.name: [claim.claim_name for claim in one.dynamic_resources]
                for one in answer.pod_resources.containers
            }
            assert listed == {"c": ["own"], "without": []}
            await world.node.delete("p")
            assert await world.calls() == ["prepare own", "unprepare own"]


async def test_container_is_not_created_before_the_claim_of_its_extended_resources_is_known(
    short_folder: Path,
) -> None:
    async with claim_node(short_folder, "1.36") as world:
        await world.register()
        pod = extended_pod(world, is_reserved=False)

        world.bind(pod)
        await world.node.until(lambda: failures(world))

        assert failures(world)[0].endswith(f"pod p ({pod.uid}) is not allowed to use ResourceClaim own (own-uid)")


def extended_pod(world: ClaimNode, *, is_reserved: bool = True) -> Pod:
    """A pod as a scheduler leaves it: one of its two containers gets its device through the claim ``own``."""
    resource = "example.com/stub"
    container = {"name": "c", "image": "none", "resources": {"limits": {resource: "1"}}}
    spec = {"containers": [container, {"name": "without", "image": "none"}]}
    pod = world.node.store.create_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    world.claim("own", *([pod] if is_reserved else []))
    mapping = {"containerName": "c", "resourceName": resource, "requestName": "req"}
    noted = {"resourceClaimName": "own", "requestMappings": [mapping]}
    key = Key("pods", "default", "p")
    body = world.node.store.objects.get(key) or {}
    status = {**body["status"], "extendedResourceClaimStatus": noted}
    world.node.store.objects.replace(key, {**body, "status": status})
    return pod
