"""An NVML of plain values, for plugins in the test's own process."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from plugin.nvml.nvml import (
    EventType,
    GpuHandle,
    GpuInstanceProfile,
    MigAttributes,
    NvmlError,
    NvmlEvent,
    NvmlReturn,
)


@dataclass(frozen=True)
class FakeMig:
    """A MIG device, by NVML's numbers of its profiles and the ids of its instances."""

    gpu_instance: int
    gpu_profile: int = 0
    compute_profile: int = 0
    compute_instance: int = 0
    memory_mib: int = 9984


class FakeNvml:
    """NVML of a machine made of plain values; the health thread waits for what `events` gets.

    A method named in `failures` raises that return code; `events` takes `NvmlEvent` or `NvmlError`. The GPUs of the
    indices in `too_old` have no events; those in `mig` are partitioned, into what they have there by MIG index. The
    handle of a GPU is its index, that of a MIG device both. `profiles` are what GPU instances can be, with their MiB.
    """

    def __init__(self, count: int) -> None:
        self.names = [f"Fake GPU {index}" for index in range(count)]
        self.bus_ids = [f"0000:{index + 1:02x}:00.0" for index in range(count)]
        self.uuids = [f"GPU-{index}" for index in range(count)]
        self.ancestors: dict[frozenset[int], int] = {}
        self.nvlinks: dict[int, dict[int, str]] = {}
        self.failures: dict[str, NvmlReturn | int] = {}
        self.events: queue.Queue[NvmlEvent | NvmlError] = queue.Queue()
        self.registered: list[str] = []
        self.too_old: set[int] = set()
        self.mig: dict[int, dict[int, FakeMig]] = {}
        self.profiles = {0: 9984, 2: 40320, 4: 81152, 7: 9984}
        self.has_library = True
        self.functions = {"nvmlDeviceGetMigMode"}
        self.sessions = 0

    def _maybe_fail(self, method: str) -> None:
        if method in self.failures:
            code = int(self.failures[method])
            raise NvmlError(code, f"code {code}")

    def load(self, library: str) -> bool:
        return self.has_library

    def has_function(self, name: str) -> bool:
        return name in self.functions

    def init(self) -> None:
        if not self.has_library:
            raise NvmlError(NvmlReturn.LIBRARY_NOT_FOUND, "ERROR_LIBRARY_NOT_FOUND")
        self._maybe_fail("init")
        self.sessions += 1

    def shutdown(self) -> None:
        assert self.sessions > 0
        self.sessions -= 1

    def gpu_count(self) -> int:
        self._maybe_fail("gpu_count")
        return len(self.uuids)

    def gpu_by_index(self, index: int) -> Any:
        self._maybe_fail("gpu_by_index")
        return index

    def gpu_by_uuid(self, uuid: str) -> Any:
        self._maybe_fail("gpu_by_uuid")
        return self.uuids.index(uuid)

    def name(self, gpu: Any) -> str:
        self._maybe_fail("name")
        return str(self.names[gpu])

    def uuid(self, gpu: Any) -> str:
        self._maybe_fail("uuid")
        return self.uuids[gpu] if isinstance(gpu, int) else f"MIG-{gpu[0]}-{gpu[1]}"

    def minor_number(self, gpu: Any) -> int:
        self._maybe_fail("minor_number")
        return int(gpu)

    def total_memory_bytes(self, gpu: Any) -> int:
        self._maybe_fail("total_memory_bytes")
        return 81559 << 20

    def compute_capability(self, gpu: Any) -> tuple[int, int]:
        self._maybe_fail("compute_capability")
        return 9, gpu

    def addresses_coherently(self, gpu: Any) -> bool:
        return False

    def driver_version(self) -> str:
        return "580.95.05"

    def mig_is_enabled(self, gpu: Any) -> bool:
        self._maybe_fail("mig_is_enabled")
        return gpu in self.mig

    def max_mig_device_count(self, gpu: Any) -> int:
        self._maybe_fail("max_mig_device_count")
        return 7

    def mig_device_by_index(self, gpu: Any, index: int) -> Any:
        self._maybe_fail("mig_device_by_index")
        if index not in self.mig.get(gpu, {}):
            raise NvmlError(NvmlReturn.NOT_FOUND, "Not Found")
        return gpu, index

    def is_mig_device(self, gpu: Any) -> bool:
        self._maybe_fail("is_mig_device")
        return isinstance(gpu, tuple)

    def parent(self, mig: Any) -> Any:
        self._maybe_fail("parent")
        return mig[0]

    def _mig(self, handle: Any) -> FakeMig:
        gpu, index = handle
        return self.mig[gpu][index]

    def mig_attributes(self, mig: Any) -> MigAttributes:
        self._maybe_fail("mig_attributes")
        device = self._mig(mig)
        return MigAttributes(16, 1, 1, 0, 1, 0, device.gpu_profile + 1, device.compute_profile + 1, device.memory_mib)

    def gpu_instance_id(self, mig: Any) -> int:
        self._maybe_fail("gpu_instance_id")
        return self._mig(mig).gpu_instance

    def compute_instance_id(self, mig: Any) -> int:
        self._maybe_fail("compute_instance_id")
        return self._mig(mig).compute_instance

    def gpu_instance(self, gpu: Any, instance_id: int) -> Any:
        self._maybe_fail("gpu_instance")
        return next(device for device in self.mig[gpu].values() if device.gpu_instance == instance_id)

    def gpu_instance_profile_id(self, instance: Any) -> int:
        self._maybe_fail("gpu_instance_profile_id")
        return 10 + int(instance.gpu_profile)

    def gpu_instance_profile(self, gpu: Any, number: int) -> GpuInstanceProfile:
        self._maybe_fail("gpu_instance_profile")
        if number not in self.profiles:
            raise NvmlError(NvmlReturn.NOT_SUPPORTED, "Not Supported")
        return GpuInstanceProfile(10 + number, self.profiles[number])

    def compute_instance(self, gpu_instance: Any, instance_id: int) -> Any:
        self._maybe_fail("compute_instance")
        return gpu_instance

    def compute_instance_profile_id(self, instance: Any) -> int:
        self._maybe_fail("compute_instance_profile_id")
        return 20 + int(instance.compute_profile)

    def compute_instance_profile(self, gpu_instance: Any, number: int, engine: int) -> int:
        self._maybe_fail("compute_instance_profile")
        return 20 + number

    def pci_bus_id(self, gpu: Any) -> str:
        self._maybe_fail("pci_bus_id")
        return str(self.bus_ids[gpu])

    def common_ancestor(self, gpu: Any, other: Any) -> int:
        self._maybe_fail("common_ancestor")
        return self.ancestors.get(frozenset((gpu, other)), 50)

    def nvlink_is_enabled(self, gpu: Any, link: int) -> bool:
        self._maybe_fail("nvlink_is_enabled")
        return link in self.nvlinks.get(gpu, {})

    def nvlink_remote_bus_id(self, gpu: Any, link: int) -> str:
        self._maybe_fail("nvlink_remote_bus_id")
        return self.nvlinks[gpu][link]

    def create_event_set(self) -> Any:
        self._maybe_fail("create_event_set")
        return object()

    def free_event_set(self, events: Any) -> None:
        pass

    def supported_events(self, gpu: Any) -> int:
        self._maybe_fail("supported_events")
        return 0x1F

    def register_events(self, gpu: Any, event_types: int, events: Any) -> None:
        self._maybe_fail("register_events")
        if gpu in self.too_old:
            raise NvmlError(NvmlReturn.NOT_SUPPORTED, "Not Supported")
        self.registered.append(self.uuids[gpu])

    def wait(self, events: Any, timeout_ms: int) -> NvmlEvent:
        # Shorter than asked for, so that no thread outlives the test run for long.
        try:
            event = self.events.get(timeout=0.2)
        except queue.Empty:
            raise NvmlError(NvmlReturn.TIMEOUT, "Timeout") from None
        if isinstance(event, NvmlError):
            raise event
        return event

    def xid(self, gpu: int, xid: int) -> None:
        """Report an XID of the GPU of this index."""
        self.events.put(NvmlEvent(GpuHandle(gpu), EventType.XID_CRITICAL_ERROR, xid))


@pytest.fixture
def make_nvml() -> Callable[[int], FakeNvml]:
    """Makes the NVML of a machine with so many GPUs."""
    return FakeNvml
