"""What a pod's status says of the health of its devices; seen on the device manager v1.34.4."""

from __future__ import annotations

from simkubelet.apis.deviceplugin import ContainerAllocateResponse, Device
from simkubelet.devices.device_list import DeviceList
from simkubelet.devices.device_manager import DeviceManager
from simkubelet.devices.health_updates import allocated_resources_status
from simkubelet.devices.pod_devices import Allocation, AllocationEntry, DeviceID
from simkubelet.model.pod import Container, ContainerKind, Pod, PodUID
from simkubelet.model.pod_status import ResourceHealth
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import version

GPU = ResourceName("example.com/gpu")
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
