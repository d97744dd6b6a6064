"""The few NVML calls that the plugin makes, behind a small protocol.

`PyNvml` loads ``libnvidia-ml.so.1`` by the loader's normal search when it is first initialised. Whether that library
drives real hardware is nothing that this program could tell.

NVML counts initialisations: each user holds its own (`session`), so the library stays up while the health thread still
waits in it, however often the plugin restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from types import ModuleType
from typing import Any, Final, NewType, Protocol, cast

__all__ = [
    "EventSet",
    "EventType",
    "GpuHandle",
    "Nvml",
    "NvmlError",
    "NvmlEvent",
    "NvmlReturn",
    "PyNvml",
    "session",
]

GpuHandle = NewType("GpuHandle", object)
EventSet = NewType("EventSet", object)

MAX_NVLINKS: Final = 18
_FEATURE_ENABLED: Final = 1


class NvmlReturn(IntEnum):
    """The return codes on which something depends."""

    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12


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


@dataclass(frozen=True, slots=True)
class NvmlEvent:
    """One event of an event set; `data` is the XID of an XID event."""

    gpu: GpuHandle
    event_type: int
    data: int


class Nvml(Protocol):
    """What the plugin asks of NVML. Every method raises `NvmlError`; all may be called from any thread."""

    def init(self) -> None: ...

    def shutdown(self) -> None: ...

    def gpu_count(self) -> int: ...

    def gpu_by_index(self, index: int) -> GpuHandle: ...

    def gpu_by_uuid(self, uuid: str) -> GpuHandle: ...

    def name(self, gpu: GpuHandle) -> str: ...

    def uuid(self, gpu: GpuHandle) -> str: ...

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


class PyNvml:
    """`Nvml` through nvidia-ml-py, which is imported at `init`."""

    def __init__(self) -> None:
        self._module: ModuleType | None = None

    def init(self) -> None:
        if self._module is None:
            import pynvml

            self._module = pynvml
        self._call("nvmlInit")

    def shutdown(self) -> None:
        self._call("nvmlShutdown")

    def gpu_count(self) -> int:
        return cast(int, self._call("nvmlDeviceGetCount"))

    def gpu_by_index(self, index: int) -> GpuHandle:
        return GpuHandle(self._call("nvmlDeviceGetHandleByIndex", index))

    def gpu_by_uuid(self, uuid: str) -> GpuHandle:
        return GpuHandle(self._call("nvmlDeviceGetHandleByUUID", uuid))

    def name(self, gpu: GpuHandle) -> str:
        return cast(str, self._call("nvmlDeviceGetName", gpu))

    def uuid(self, gpu: GpuHandle) -> str:
        return cast(str, self._call("nvmlDeviceGetUUID", gpu))

    def pci_bus_id(self, gpu: GpuHandle) -> str:
        return _sysfs_bus_id(self._call("nvmlDeviceGetPciInfo", gpu).busId)

    def common_ancestor(self, gpu: GpuHandle, other: GpuHandle) -> int:
        return cast(int, self._call("nvmlDeviceGetTopologyCommonAncestor", gpu, other))

    def nvlink_is_enabled(self, gpu: GpuHandle, link: int) -> bool:
        return cast(int, self._call("nvmlDeviceGetNvLinkState", gpu, link)) == _FEATURE_ENABLED

    def nvlink_remote_bus_id(self, gpu: GpuHandle, link: int) -> str:
        return _sysfs_bus_id(self._call("nvmlDeviceGetNvLinkRemotePciInfo", gpu, link).busId)

    def create_event_set(self) -> EventSet:
        return EventSet(self._call("nvmlEventSetCreate"))

    def free_event_set(self, events: EventSet) -> None:
        self._call("nvmlEventSetFree", events)

    def supported_events(self, gpu: GpuHandle) -> int:
        return cast(int, self._call("nvmlDeviceGetSupportedEventTypes", gpu))

    def register_events(self, gpu: GpuHandle, event_types: int, events: EventSet) -> None:
        self._call("nvmlDeviceRegisterEvents", gpu, event_types, events)

    def wait(self, events: EventSet, timeout_ms: int) -> NvmlEvent:
        data = self._call("nvmlEventSetWait_v2", events, timeout_ms)
        return NvmlEvent(GpuHandle(data.device), data.eventType, data.eventData)

    def _call(self, name: str, *args: object) -> Any:
        module = self._module
        if module is None:
            raise RuntimeError(f"{name} before init")
        function: Callable[..., Any] = getattr(module, name)
        try:
            return function(*args)
        except module.NVMLError as error:
            raise NvmlError(error.value, str(error)) from error


def _sysfs_bus_id(bus_id: bytes | str) -> str:
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    return text.lower().removeprefix("0000")
