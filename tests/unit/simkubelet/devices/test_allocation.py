from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.deviceplugin import ContainerAllocateResponse, Device, DevicePluginOptions
from simkubelet.devices.allocation import DeviceRequest, PreferenceQuery, devices_to_allocate
from simkubelet.devices.device_list import DeviceList
from simkubelet.devices.device_manager import DeviceManager
from simkubelet.devices.endpoint import Endpoint
from simkubelet.devices.pod_devices import Allocation, AllocationEntry, DeviceID
from simkubelet.model.errors import AllocationError
from simkubelet.model.pod import PodUID
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import version

GPU = ResourceName("example.com/gpu")
POD = PodUID("u1")


def manager_with(healthy: set[str], unhealthy: set[str] = frozenset(), held: dict[str, set[str]] | None = None):
    manager = DeviceManager(None, 0.0, version("1.34"))
    devices = [Device(ID=d, health="Healthy") for d in healthy] + [Device(ID=d, health="Unhealthy") for d in unhealthy]
    manager.connect(Endpoint(GPU, None), DevicePluginOptions(get_preferred_allocation_available=True))
    manager.update(GPU, DeviceList.of(devices))
    for pod, devices in (held or {}).items():
        allocation = Allocation({-1: tuple(DeviceID(d) for d in sorted(devices))}, ContainerAllocateResponse())
        manager.pod_devices.insert(AllocationEntry(PodUID(pod), "c", GPU, allocation))
    manager.forget_reservations()
    return manager


def decide(manager: DeviceManager, request: DeviceRequest, preferred: frozenset[str] = frozenset()):
    """Run a decision to its end; return the devices and what the plugin was asked."""
    decision = devices_to_allocate(manager, request)
    asked: list[PreferenceQuery] = []
    try:
        asked.append(next(decision))
        while True:
            asked.append(decision.send(preferred))
    except StopIteration as done:
        return done.value, asked


def request(size: int, **changes) -> DeviceRequest:
    return DeviceRequest(POD, "c", GPU, size, **changes)


def test_container_gets_the_first_free_devices_when_the_plugin_has_no_preference():
    devices, asked = decide(manager_with({"a", "b", "c"}, held={"u2": {"a"}}), request(1))

    assert devices == {"b"}
    assert asked == [PreferenceQuery(GPU, frozenset({"b", "c"}), frozenset(), 1)]


def test_preferred_devices_are_taken_if_they_are_free():
    devices, _ = decide(manager_with({"a", "b", "c"}, held={"u2": {"a"}}), request(1), frozenset({"a", "c"}))

    assert devices == {"c"}


def test_reusable_devices_come_first_and_are_reported_as_must_include():
    devices, asked = decide(manager_with({"a", "b", "c"}), request(2, reusable=frozenset({"c"})))

    assert devices == {"a", "c"}
    assert asked[0].must_include == {"c"}


def test_reusable_devices_that_suffice_are_taken_without_asking():
    manager = manager_with({"a", "b"}, unhealthy={"x"})

    # Their health is not looked at, as in the kubelet.
    assert decide(manager, request(1, reusable=frozenset({"x"}))) == ({"x"}, [])


@pytest.mark.parametrize(
    ("manager", "asked", "text"),
    [
        pytest.param(
            manager_with({"a"}, held={"u2": {"a"}}),
            request(1),
            "requested number of devices unavailable for example.com/gpu. Requested: 1, Available: 0",
            id="all-in-use",
        ),
        pytest.param(
            manager_with(set(), unhealthy={"a"}),
            request(1),
            "no healthy devices present; cannot allocate unhealthy devices example.com/gpu",
            id="all-unhealthy",
        ),
        pytest.param(
            manager_with({"b"}, unhealthy={"a"}, held={"u1": {"a"}}),
            request(1),
            "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.com/gpu",
            id="own-device-unhealthy",
        ),
        pytest.param(
            manager_with({"a", "b"}, held={"u1": {"a"}}),
            request(2),
            'pod "u1" container "c" changed request for resource "example.com/gpu" from 1 to 2',
            id="request-changed",
        ),
        pytest.param(
            DeviceManager(None, 0.0, version("1.34")),
            request(1),
            "cannot allocate unregistered device example.com/gpu",
            id="unregistered",
        ),
    ],
)
def test_refusals_are_in_the_words_of_the_kubelet(manager, asked, text):
    with pytest.raises(AllocationError) as refusal:
        decide(manager, asked)

    assert str(refusal.value) == text


def test_running_container_after_a_kubelet_restart_needs_nothing_though_the_plugin_is_not_back():
    manager = manager_with(set(), unhealthy={"a"}, held={"u1": {"a"}})

    assert decide(manager, request(1, is_container_running=True)) == (frozenset(), [])


def test_second_admission_of_a_container_takes_nothing_more():
    assert decide(manager_with({"a", "b"}, held={"u1": {"a"}}), request(1)) == (frozenset(), [])


DEVICES = st.sets(st.sampled_from([f"d{n}" for n in range(8)]))


@given(
    healthy=DEVICES,
    unhealthy=DEVICES,
    held=DEVICES,
    preferred=DEVICES,
    reusable=DEVICES,
    size=st.integers(0, 9),
)
def test_any_allocation_is_exact_free_and_healthy(healthy, unhealthy, held, preferred, reusable, size):
    manager = manager_with(healthy, unhealthy - healthy, {"u2": held - reusable})
    reserved_before = {device for devices in manager.allocated.values() for device in devices}

    try:
        devices, asked = decide(
            manager,
            request(size, reusable=frozenset(reusable)),
            frozenset(preferred),
        )
    except AllocationError:
        free = healthy - reserved_before - reusable
        assert not healthy or len(free) < size - len(reusable)
        return

    assert len(devices) == size
    assert devices <= (healthy - reserved_before) | reusable
    assert devices <= manager.allocated.get(GPU, set()) or not devices
    assert all(query.must_include <= reusable for query in asked)
