"""Which pods are updated when a device's health changes, and what a pod's status has of it.

Both were observed on v1.34.4, the first on v1.31.14 and v1.37.0 too, and read in v1.36.3.
"""

from __future__ import annotations

import asyncio

import pytest

from simkubelet.apis.deviceplugin import ContainerAllocateResponse, Device
from simkubelet.devices.device_list import DeviceList
from simkubelet.devices.device_manager import DeviceManager
from simkubelet.devices.health_updates import HealthUpdates, allocated_resources_status, pods_with_changes
from simkubelet.devices.pod_devices import Allocation, AllocationEntry, DeviceID, PodDevices
from simkubelet.model.pod import Container, ContainerKind, Pod, PodUID
from simkubelet.model.pod_status import ResourceHealth
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import version

GPU, NIC = ResourceName("example.com/gpu"), ResourceName("example.com/nic")


def listed(**health: str) -> DeviceList:
    return DeviceList.of(Device(ID=name, health=word) for name, word in health.items())


def held(**devices: str) -> PodDevices:
    """A pod for each device that somebody holds: device -> pod."""
    return PodDevices(
        AllocationEntry(PodUID(pod), "c", GPU, Allocation({-1: (DeviceID(device),)}, ContainerAllocateResponse()))
        for device, pod in devices.items()
    )


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        pytest.param(listed(d0="Healthy"), listed(d0="Unhealthy"), ("u1",), id="becomes unhealthy"),
        pytest.param(listed(d0="weird"), listed(d0="weirder"), ("u1",), id="another word for unhealthy"),
        pytest.param(listed(d0="Healthy"), listed(d0="Healthy"), (), id="stays"),
        pytest.param(listed(d0="Healthy"), listed(), (), id="disappears"),
        pytest.param(listed(), listed(d0="Healthy"), ("u1",), id="reappears"),
        pytest.param(listed(), listed(d1="Healthy"), (), id="one that nobody holds"),
    ],
)
def test_pod_is_notified_of_another_health_of_its_device(before, now, told):
    assert pods_with_changes(GPU, before, now, held(d0="u1"), version("1.34")) == told


@pytest.mark.parametrize("words", [("Healthy", "Unhealthy"), ("Unhealthy", "weird"), ("weird", "Unhealthy")])
def test_device_that_is_listed_with_two_words_has_changed_in_every_list(words):
    twice = DeviceList.of(Device(ID="d0", health=word) for word in words)

    assert pods_with_changes(GPU, twice, twice, held(d0="u1"), version("1.34")) == ("u1",)


def test_pods_of_one_list_are_reported_together():
    before, now = listed(d0="Healthy", d1="Healthy"), listed(d0="Unhealthy", d1="Unhealthy")

    assert pods_with_changes(GPU, before, now, held(d0="u2", d1="u1"), version("1.34")) == ("u1", "u2")


@pytest.mark.parametrize(("minor", "told"), [("1.36", ("u1",)), ("1.37", ())])
def test_device_of_another_resource_is_mistaken_for_one_of_the_same_id_up_to_1_36(minor, told):
    now = listed(d0="Unhealthy")

    assert pods_with_changes(NIC, listed(d0="Healthy"), now, held(d0="u1"), version(minor)) == told


def test_1_31_tells_a_pod_without_name_of_devices_that_nobody_holds():
    assert pods_with_changes(GPU, listed(), listed(d0="Healthy"), held(), version("1.31")) == ("",)


async def test_more_than_the_channel_holds_is_dropped():
    updates = HealthUpdates(2)

    for pod in ("u1", "u2", "u3"):
        await updates.put((PodUID(pod),))

    assert [await updates.get(), await updates.get()] == [("u1",), ("u2",)]
    assert len(updates) == 0


async def test_giver_of_1_31_waits_until_its_news_are_taken():
    updates = HealthUpdates(0)
    giving = asyncio.create_task(updates.put((PodUID("u1"),)))
    taken = await updates.get()

    assert taken == ("u1",)
    await giving


POD = Pod(
    PodUID("u1"),
    "default",
    "p",
    tuple(Container(name, kind, {}, {}, {}) for name, kind in [("i", ContainerKind.INIT), ("c", ContainerKind.APP)]),
)


def health_of(*devices: str, **words: str) -> list[ResourceHealth]:
    """The reported health of devices that both containers of the pod hold, after a list of `words`."""
    manager = DeviceManager(None, 0.0, version("1.34"))
    allocation = Allocation({-1: tuple(map(DeviceID, devices))}, ContainerAllocateResponse())
    for container in POD.containers:
        manager.pod_devices.insert(AllocationEntry(POD.uid, container.name, GPU, allocation))
    manager.update(GPU, DeviceList.of(Device(ID=name, health=word) for name, word in words.items()))
    status = allocated_resources_status(manager, POD)
    assert list(status) == ["c"]
    ((name, resources),) = [(each.name, list(each.resources)) for each in status["c"]]
    assert name == GPU
    return resources


def test_every_word_but_healthy_is_reported_as_unhealthy():
    assert health_of("d0", "d1", "d2", d0="Healthy", d1="Unhealthy", d2="healthy") == [
        ResourceHealth(DeviceID("d0"), "Healthy"),
        ResourceHealth(DeviceID("d1"), "Unhealthy"),
        ResourceHealth(DeviceID("d2"), "Unhealthy"),
    ]


def test_device_that_is_no_longer_listed_is_reported_as_healthy():
    assert health_of("d0", d1="Unhealthy") == [ResourceHealth(DeviceID("d0"), "Healthy")]
