"""What a container is given over several calls: init containers, containers that start late, pods that meet.

The plugin answers at once, or when the test says so; what the device manager v1.34.4 does here was seen on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from simkubelet._internal.change import Change
from simkubelet.apis.deviceplugin import (
    AllocateResponse,
    ContainerAllocateResponse,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    PreferredAllocationResponse,
    PreStartContainerResponse,
)
from simkubelet.devices.allocator import Allocator
from simkubelet.devices.checkpoint import Checkpoint
from simkubelet.devices.device_list import DeviceList
from simkubelet.devices.device_manager import DeviceManager
from simkubelet.devices.endpoint import Endpoint
from simkubelet.devices.pod_devices import Allocation, AllocationEntry, DeviceID
from simkubelet.model.errors import AllocationError, KubeletPanicError
from simkubelet.model.pod import Container, ContainerKind, Pod, PodUID
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import version

GPU = ResourceName("example.com/gpu")
INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP


class Plugin:
    """A plugin that answers each call as the test said, after `gate` is set where there is one."""

    socket = "stub.sock"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.preferred: list[str] = []
        self.gate: asyncio.Event | None = None
        self.asked = Change()

    async def until_asked(self, times: int = 1) -> None:
        while len(self.calls) < times:
            await self.asked.wait(self.asked.count)

    async def call(self, method: str, request: Any, answer: Any, *, timeout_s: float | None = None) -> Any:
        self.calls.append(method)
        self.asked.notify()
        if self.gate is not None:
            await self.gate.wait()
        if answer is AllocateResponse:
            return AllocateResponse(container_responses=[ContainerAllocateResponse()])
        if answer is PreferredAllocationResponse:
            chosen = ContainerPreferredAllocationResponse(deviceIDs=self.preferred)
            return PreferredAllocationResponse(container_responses=[chosen])
        return PreStartContainerResponse()


class Devices:
    """A device manager, its allocator and one plugin; every pod is active until it is taken out of `active`."""

    def __init__(
        self, *devices: str, minor: str = "1.34", checkpoint: Checkpoint | None = None, **options: bool
    ) -> None:
        self.manager = DeviceManager(checkpoint, 0.0, version(minor))
        self.plugin = Plugin()
        self.active: set[PodUID] = set()
        self.saves = 0
        self.allocator = Allocator(
            self.manager,
            version(minor),
            save=self._save,
            active_pods=lambda: self.active,
            is_container_running=lambda pod, container: False,
            on_answered=lambda resource, seconds: None,
            on_allocated=lambda *what: None,
        )
        self.allocator.are_sources_ready = True
        if devices:
            self.manager.connect(Endpoint(GPU, self.plugin), DevicePluginOptions(**options))
            self.list(devices)

    def _save(self) -> None:
        self.saves += 1

    def list(self, healthy: Iterable[str], unhealthy: Iterable[str] = ()) -> None:
        listed = [(name, "Healthy") for name in healthy] + [(name, "Unhealthy") for name in unhealthy]
        self.manager.update(GPU, DeviceList.of(Device(ID=name, health=health) for name, health in listed))

    def pod(self, uid: str, *containers: tuple[ContainerKind, int]) -> Pod:
        self.active.add(PodUID(uid))
        parts = (Container(f"c{n}", kind, {GPU: size}, {GPU: size}, {}) for n, (kind, size) in enumerate(containers))
        return Pod(PodUID(uid), "default", uid, tuple(parts))

    async def admit(self, pod: Pod) -> list[set[str]]:
        """Allocate for each container in turn; what each holds."""
        for container in pod.containers:
            await self.allocator.allocate(pod, container)
        return [self.held(pod, container.name) for container in pod.containers]

    def held(self, pod: Pod, container: str = "c0") -> set[str]:
        return set(self.manager.pod_devices.container_devices(pod.uid, container, GPU) or ())


def checkpoint_of(uid: str, *devices: str, registered: bool = True) -> Checkpoint:
    allocation = Allocation({-1: tuple(map(DeviceID, devices))}, ContainerAllocateResponse(envs={"A": "1"}))
    entry = AllocationEntry(PodUID(uid), "c0", GPU, allocation)
    return Checkpoint((entry,), {GPU: tuple(map(DeviceID, devices))} if registered else {})


async def refusal(devices: Devices, pod: Pod, container: int = 0) -> str:
    with pytest.raises(AllocationError) as error:
        await devices.allocator.allocate(pod, pod.containers[container])
    return str(error.value)


@pytest.mark.parametrize(
    ("count", "containers", "held"),
    [
        pytest.param(2, [(INIT, 2), (APP, 1)], [{"d0", "d1"}, {"d0"}], id="the app takes one of the init's"),
        pytest.param(2, [(INIT, 1), (APP, 2)], [{"d0"}, {"d0", "d1"}], id="the app takes it and another"),
        pytest.param(2, [(INIT, 2), (INIT, 1)], [{"d0", "d1"}, {"d0"}], id="one init from the other"),
        pytest.param(2, [(SIDECAR, 1), (APP, 1)], [{"d0"}, {"d1"}], id="a sidecar keeps its own"),
        pytest.param(2, [(INIT, 2), (SIDECAR, 1), (APP, 1)], [{"d0", "d1"}, {"d0"}, {"d1"}], id="all three"),
        pytest.param(
            2, [(INIT, 2), (APP, 1), (APP, 1)], [{"d0", "d1"}, {"d0"}, {"d1"}], id="two apps share the init's"
        ),
    ],
)
async def test_devices_of_init_containers_go_to_the_next_container_of_their_pod(count, containers, held):
    devices = Devices(*(f"d{n}" for n in range(count)))

    assert await devices.admit(devices.pod("u1", *containers)) == held


async def test_devices_of_an_init_container_stay_held_though_the_app_uses_fewer():
    devices = Devices("d0", "d1")
    await devices.admit(devices.pod("u1", (INIT, 2), (APP, 1)))

    assert await refusal(devices, devices.pod("u2", (APP, 1))) == (
        "requested number of devices unavailable for example.com/gpu. Requested: 1, Available: 0"
    )


@pytest.mark.parametrize(("minor", "held"), [("1.28", [{"d0"}, {"d0"}]), ("1.29", [{"d0"}, {"d1"}])])
async def test_devices_of_a_sidecar_go_to_the_app_up_to_1_28(minor, held):
    devices = Devices("d0", "d1", minor=minor)

    assert await devices.admit(devices.pod("u1", (SIDECAR, 1), (APP, 1))) == held


async def test_devices_to_reuse_are_lost_when_another_pod_is_given_devices_in_between():
    devices = Devices("d0", "d1", "d2")
    first, second = devices.pod("u1", (INIT, 1), (APP, 1)), devices.pod("u2", (APP, 1))
    await devices.allocator.allocate(first, first.containers[0])
    await devices.admit(second)

    await devices.allocator.allocate(first, first.containers[1])

    assert (devices.held(first, "c0"), devices.held(first, "c1")) == ({"d0"}, {"d2"})


async def test_unhealthy_device_of_an_init_container_goes_to_the_app():
    devices = Devices("d0", "d1")
    pod = devices.pod("u1", (INIT, 1), (APP, 1))
    await devices.allocator.allocate(pod, pod.containers[0])
    devices.list(["d1"], ["d0"])

    await devices.allocator.allocate(pod, pod.containers[1])

    assert devices.held(pod, "c1") == {"d0"}


async def test_two_pods_at_once_end_the_kubelet():
    devices = Devices("d0", "d1")
    devices.plugin.gate = asyncio.Event()
    pods = [devices.pod("u1", (APP, 1)), devices.pod("u2", (APP, 1))]
    calls = [asyncio.create_task(devices.admit(pod)) for pod in pods]
    await devices.plugin.until_asked()

    devices.plugin.gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)

    assert isinstance(results[0], KubeletPanicError)
    assert str(results[0]) == "assignment to entry in nil map"
    assert results[1] == [{"d1"}]


async def test_pods_whose_plugin_is_slow_to_prefer_get_the_same_device():
    devices = Devices("d0", "d1", get_preferred_allocation_available=True)
    devices.plugin.gate, devices.plugin.preferred = asyncio.Event(), ["d0"]
    pods = [devices.pod("u1", (APP, 1)), devices.pod("u2", (APP, 1))]
    calls = [asyncio.create_task(devices.admit(pod)) for pod in pods]
    await devices.plugin.until_asked(2)

    devices.plugin.gate.set()
    await asyncio.gather(*calls, return_exceptions=True)

    assert [devices.held(pod) for pod in pods] == [{"d0"}, {"d0"}]


async def test_pod_that_is_not_active_gets_other_devices_each_time():
    devices = Devices("d0", "d1")
    pod = devices.pod("u1", (APP, 1))
    devices.active.clear()

    await devices.allocator.allocate(pod, pod.containers[0])
    await devices.allocator.allocate(pod, pod.containers[0])

    assert devices.plugin.calls == ["Allocate", "Allocate"]


async def test_no_device_asked_for_is_no_call():
    devices = Devices("d0")

    assert await devices.admit(devices.pod("u1", (APP, 0))) == [set()]
    assert devices.plugin.calls == []


async def test_options_of_a_container_without_allocation_bring_one_where_its_pod_is_active():
    devices = Devices("d0")
    pod = devices.pod("u1", (APP, 1))

    await devices.allocator.run_options(pod, pod.containers[0])

    assert devices.held(pod) == {"d0"}
    devices.active.clear()
    other = Pod(PodUID("u2"), "default", "u2", pod.containers)
    await devices.allocator.run_options(other, other.containers[0])
    assert devices.held(other) == set()


async def test_pre_start_without_allocation_is_an_error_and_brings_none():
    devices = Devices("d0", pre_start_required=True)
    pod = devices.pod("u1", (APP, 1))

    with pytest.raises(AllocationError, match=r"^no devices found allocated in local cache for pod u1, container c0, "):
        await devices.allocator.run_options(pod, pod.containers[0])

    assert devices.plugin.calls == []


async def test_options_of_a_plugin_that_is_gone_are_those_that_it_gave():
    devices = Devices(checkpoint=checkpoint_of("u1", "d0"))
    pod = devices.pod("u1", (APP, 1))

    options = await devices.allocator.run_options(pod, pod.containers[0])

    assert options.envs == {"A": "1"}


async def test_pre_start_of_a_plugin_that_is_gone_keeps_the_container_from_starting():
    devices = Devices("d0", pre_start_required=True)
    pod = devices.pod("u1", (APP, 1))
    await devices.admit(pod)
    devices.manager.disconnect(GPU, "stub.sock", 1.0)

    with pytest.raises(AllocationError) as error:
        await devices.allocator.run_options(pod, pod.containers[0])

    text = str(error.value)
    assert text.startswith("device plugin PreStartContainer rpc failed with err: endpoint &{")
    assert text.endswith("} has been stopped")


async def test_container_of_a_forgotten_resource_cannot_start_while_a_pod_holds_it():
    devices = Devices(checkpoint=checkpoint_of("u1", "d0"))
    pod = devices.pod("u1", (APP, 1))
    assert devices.manager.drop_expired(301.0) == {GPU}

    with pytest.raises(AllocationError, match=rf"^endpoint not found in cache for a registered resource: {GPU}$"):
        await devices.allocator.run_options(pod, pod.containers[0])
    assert await refusal(devices, pod) == f"cannot allocate unregistered device {GPU}"
    assert await refusal(devices, devices.pod("u2", (APP, 1))) == f"cannot allocate unregistered device {GPU}"


async def test_pod_of_a_forgotten_resource_that_nobody_holds_gets_nothing():
    devices = Devices("d0")
    devices.manager.disconnect(GPU, "stub.sock", 0.0)
    devices.manager.drop_expired(301.0)

    assert await devices.admit(devices.pod("u1", (APP, 1))) == [set()]


@pytest.mark.parametrize("holds", [True, False])
async def test_nobody_is_admitted_while_a_plugin_is_gone(holds):
    devices = Devices("d0", "d1")
    pod = devices.pod("u1", (APP, 1))
    if holds:
        await devices.admit(pod)
    devices.manager.disconnect(GPU, "stub.sock", 1.0)

    assert await refusal(devices, pod) == f"no healthy devices present; cannot allocate unhealthy devices {GPU}"


@pytest.mark.parametrize(
    ("healthy", "unhealthy", "text"),
    [
        (["d0"], ["d1"], None),
        (["d1"], ["d0"], "previously allocated devices are no longer healthy; cannot allocate unhealthy devices"),
        (["d1"], [], "previously allocated devices are no longer healthy; cannot allocate unhealthy devices"),
        ([], ["d0", "d1"], "no healthy devices present; cannot allocate unhealthy devices"),
    ],
    ids=["another is unhealthy", "its own is unhealthy", "its own is gone", "all are unhealthy"],
)
async def test_pod_that_comes_again_needs_its_own_devices_healthy(healthy, unhealthy, text):
    devices = Devices("d0", "d1")
    pod = devices.pod("u1", (APP, 1))
    await devices.admit(pod)

    devices.list(healthy, unhealthy)

    if text is None:
        assert await devices.admit(pod) == [{"d0"}]
    else:
        assert await refusal(devices, pod) == f"{text} {GPU}"
    await devices.allocator.run_options(pod, pod.containers[0])
    assert devices.plugin.calls == ["Allocate"]


async def test_checkpoint_is_written_after_an_allocation_and_not_when_an_ended_pod_is_dropped():
    devices = Devices("d0")
    pod = devices.pod("u1", (APP, 1))
    await devices.admit(pod)
    await devices.admit(pod)
    assert devices.saves == 1

    devices.active.clear()
    devices.allocator.release_inactive()

    assert devices.manager.allocated == {}
    assert devices.saves == 1


async def test_ended_pods_keep_their_devices_until_all_pods_are_known():
    devices = Devices("d0")
    devices.allocator.are_sources_ready = False
    await devices.admit(devices.pod("u1", (APP, 1)))
    devices.active.clear()

    assert await refusal(devices, devices.pod("u2", (APP, 1))) == (
        "requested number of devices unavailable for example.com/gpu. Requested: 1, Available: 0"
    )
    devices.allocator.are_sources_ready = True
    assert await devices.admit(devices.pod("u2", (APP, 1))) == [{"d0"}]
