"""The few NVML calls that the plugin makes, as a small protocol.

Whether the library behind it drives real hardware is not visible to this program. NVML counts
initialisations: each user holds its own (`session`), so the library stays up while the health thread still waits in it,
however often the plugin restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple, NewType, Protocol

__all__ = [
    "EventSet",
    "EventType",
    "GpuHandle",
    "GpuInstanceProfile",
    "InstanceHandle",
    "MigAttributes",
    "Nvml",
    "NvmlError",
    "NvmlEvent",
    "NvmlReturn",
    "session",
]

GpuHandle = NewType("GpuHandle", object)
"""A GPU or a MIG device."""
InstanceHandle = NewType("InstanceHandle", object)
"""A GPU instance or a compute instance."""
EventSet = NewType("EventSet", object)

LIBRARY_NAME: Final = "libnvidia-ml.so.1"
MAX_NVLINKS: Final = 18


class NvmlReturn(IntEnum):
    """The return codes on which something depends."""

    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NOT_FOUND = 6
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13


class EventType(IntFlag):
    """The events that the health check registers."""

    SINGLE_BIT_ECC_ERROR = 0x1
    DOUBLE_BIT_ECC_ERROR = 0x2
    XID_CRITICAL_ERROR = 0x8


class NvmlError(Exception):
    """An NVML call failed; the message is NVML's text for the return code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class NvmlEvent(NamedTuple):
    """One event of an event set; `data` is the XID of an XID event.

    The instances are the ids of those of a MIG device that it is about, all bits set where it is about none.
    """

    gpu: GpuHandle
    event_type: int
    data: int
    gpu_instance: int = 0xFFFFFFFF
    compute_instance: int = 0xFFFFFFFF


class GpuInstanceProfile(NamedTuple):
    """A size that a GPU instance can have; `profile_id` is the driver's name for it."""

    profile_id: int
    memory_mib: int


class MigAttributes(NamedTuple):
    """What a MIG device is made of; two devices of one type have equal ones."""

    multiprocessors: int
    shared_copy_engines: int
    shared_decoders: int
    shared_encoders: int
    shared_jpegs: int
    shared_ofas: int
    gpu_instance_slices: int
    compute_instance_slices: int
    memory_mib: int


class Nvml(Protocol):
    """What the plugin asks of NVML. Every method raises `NvmlError`; all may be called from any thread."""

    def load(self, library: str) -> bool:
        """Find the library by this path, or by the loader's search where it has no slash; False if there is none."""
        ...

    def has_function(self, name: str) -> bool:
        """Whether the library exports a function, which older ones may not."""
        ...

    def init(self) -> None: ...

    def shutdown(self) -> None: ...

    def gpu_count(self) -> int: ...

    def gpu_by_index(self, index: int) -> GpuHandle: ...

    def gpu_by_uuid(self, uuid: str) -> GpuHandle: ...

    def name(self, gpu: GpuHandle) -> str: ...

    def uuid(self, gpu: GpuHandle) -> str: ...

    def driver_version(self) -> str: ...

    def minor_number(self, gpu: GpuHandle) -> int:
        """The number in the name of the GPU's device node."""
        ...

    def total_memory_bytes(self, gpu: GpuHandle) -> int: ...

    def compute_capability(self, gpu: GpuHandle) -> tuple[int, int]:
        """CUDA's version of the GPU: major, minor."""
        ...

    def addresses_coherently(self, gpu: GpuHandle) -> bool:
        """Whether the GPU shares its page tables with the CPU; one that cannot may raise `NvmlReturn.NOT_SUPPORTED`."""
        ...

    def mig_is_enabled(self, gpu: GpuHandle) -> bool:
        """Whether MIG mode is on; a GPU that has none raises `NvmlReturn.NOT_SUPPORTED`."""
        ...

    def max_mig_device_count(self, gpu: GpuHandle) -> int: ...

    def mig_device_by_index(self, gpu: GpuHandle, index: int) -> GpuHandle:
        """A MIG device; an index without one raises `NvmlReturn.NOT_FOUND`."""
        ...

    def is_mig_device(self, gpu: GpuHandle) -> bool: ...

    def parent(self, mig: GpuHandle) -> GpuHandle:
        """The GPU of a MIG device."""
        ...

    def mig_attributes(self, mig: GpuHandle) -> MigAttributes: ...

    def gpu_instance_id(self, mig: GpuHandle) -> int: ...

    def compute_instance_id(self, mig: GpuHandle) -> int: ...

    def gpu_instance(self, gpu: GpuHandle, instance_id: int) -> InstanceHandle: ...

    def gpu_instance_profile_id(self, instance: InstanceHandle) -> int: ...

    def gpu_instance_profile(self, gpu: GpuHandle, number: int) -> GpuInstanceProfile:
        """A profile by NVML's number; one that the GPU lacks raises NOT_SUPPORTED or INVALID_ARGUMENT."""
        ...

    def compute_instance(self, gpu_instance: InstanceHandle, instance_id: int) -> InstanceHandle: ...

    def compute_instance_profile_id(self, instance: InstanceHandle) -> int: ...

    def compute_instance_profile(self, gpu_instance: InstanceHandle, number: int, engine: int) -> int:
        """The id of a profile by NVML's numbers; one that there is not raises NOT_SUPPORTED or INVALID_ARGUMENT."""
        ...

    def pci_bus_id(self, gpu: GpuHandle) -> str:
        """As sysfs names it: lower case, four digits of domain."""
        ...

    def common_ancestor(self, gpu: GpuHandle, other: GpuHandle) -> int:
        """The level, in NVML's numbers, at which the paths of two GPUs meet."""
        ...

    def nvlink_is_enabled(self, gpu: GpuHandle, link: int) -> bool: ...

    def nvlink_remote_bus_id(self, gpu: GpuHandle, link: int) -> str:
        """The bus id, in the form of `pci_bus_id`, at the other end of a link."""
        ...

    def create_event_set(self) -> EventSet: ...

    def free_event_set(self, events: EventSet) -> None: ...

    def supported_events(self, gpu: GpuHandle) -> int: ...

    def register_events(self, gpu: GpuHandle, event_types: int, events: EventSet) -> None: ...

    def wait(self, events: EventSet, timeout_ms: int) -> NvmlEvent:
        """Block the thread, not the interpreter, until an event comes; no event in time is `NvmlReturn.TIMEOUT`."""
        ...


@contextmanager
def session(nvml: Nvml) -> Iterator[None]:
    """Hold one initialisation of NVML.

    Raises:
        NvmlError: NVML cannot be initialised.
    """
    nvml.init()
    try:
        yield
    finally:
        nvml.shutdown()
