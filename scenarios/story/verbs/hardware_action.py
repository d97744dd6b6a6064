"""The verbs that act on the fake GPUs of a node, of any vendor, and how a story names one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, StrictInt, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from ...trace.events import FaultHealed, FaultInjected, GpuPartitioned, NvmlFailed, NvmlHealed
from ..part import Capability, DataPath, Name, NodeAction, Part
from ..specs import MigPartition


class HeldBy(Part):
    """The first device, in the order of ids, that a pod holds when the step is performed; of a replica its hardware.

    Attributes:
        held_by: The pod's name.
    """

    held_by: Name


class Free(Part):
    """The first GPU, in the order of indices, that no pod holds when the step is performed.

    Attributes:
        free: Always true.
    """

    free: Literal[True]


def _selector_tag(value: object) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return "(index)"
    if isinstance(value, str):
        return "(name)"
    keys = value if isinstance(value, Mapping) else getattr(value, "model_fields_set", ())
    return "(free)" if "free" in keys else "(held)"


GpuSelector = Annotated[
    Annotated[StrictInt, Field(ge=0), Tag("(index)")]
    | Annotated[StrictStr, Field(pattern="^(GPU-.+|MIG-.+|[0-9]+:[0-9]+)$"), Tag("(name)")]
    | Annotated[HeldBy, Tag("(held)")]
    | Annotated[Free, Tag("(free)")],
    Discriminator(
        _selector_tag,
        custom_error_type="gpu_selector",
        custom_error_message="expected a GPU: its index, its UUID, {heldBy: POD} or {free: true}; or a MIG device",
    ),
]
"""One GPU of a node, or one MIG device: by its UUID, or as ``GPU:DEVICE`` by index of both."""


def describe_gpu(selector: GpuSelector) -> str:
    """The selector in words, for the title of a step."""
    match selector:
        case HeldBy(held_by=pod):
            return f"a GPU of pod {pod}"
        case Free():
            return "a free GPU"
        case str(name) if name.startswith("MIG-") or ":" in name:
            return f"MIG device {name}"
        case _:
            return f"GPU {selector}"


def _device_tag(value: object) -> str | None:
    return "(id)" if isinstance(value, str) else _selector_tag(value)


DeviceSelector = Annotated[
    Annotated[StrictInt, Field(ge=0), Tag("(index)")]
    | Annotated[StrictStr, Tag("(id)")]
    | Annotated[HeldBy, Tag("(held)")]
    | Annotated[Free, Tag("(free)")],
    Discriminator(
        _device_tag,
        custom_error_type="device_selector",
        custom_error_message="expected a device: its index, its id, {heldBy: POD} or {free: true}",
    ),
]
"""One AMD GPU or partition, or one Iluvatar chip: by index, or as its plugin names it without a replica's number."""


def describe_device(selector: DeviceSelector) -> str:
    """The selector in words, for the title of a step."""
    return f"device {selector}" if isinstance(selector, str) else describe_gpu(selector).replace("GPU", "device")


class HardwareAction(NodeAction):
    """Base of the verbs for the fake GPUs of a node, of any vendor."""

    section = "Hardware"
    capability = Capability.GPU_FAULTS


class NvidiaAction(HardwareAction):
    """Base of the verbs for NVIDIA GPUs."""


class _GpuAction(NvidiaAction):
    """Base of the verbs for one GPU or MIG device.

    Attributes:
        gpu: Its index, its UUID, `{heldBy: POD}` or `{free: true}`; a MIG device also as `"0:1"`.
    """

    gpu: GpuSelector

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        return ((self.gpu.held_by, ("gpu", "heldBy")),) if isinstance(self.gpu, HeldBy) else ()


class Fail(_GpuAction):
    """Let a GPU report an XID, fall off the bus (`lost: true`), or both.

    Attributes:
        gpu: Of a MIG device the XID names its instances; what is lost is the GPU.
        xid: Critical, or an application's error where the XID means that.
        lost: From now on NVML answers GPU_IS_LOST for it.
    """

    events = (FaultInjected,)

    xid: Annotated[StrictInt, Field(ge=1, lt=2**32)] | None = None
    lost: Literal[True] | None = None

    @property
    def title(self) -> str:
        gpu = describe_gpu(self.gpu)
        if self.xid is None:
            return f"{gpu} falls off the bus"
        return f"XID {self.xid} on {gpu}{', which falls off the bus' if self.lost else ''}"

    @model_validator(mode="after")
    def _some_fault(self) -> Fail:
        if self.xid is None and self.lost is None:
            raise PydanticCustomError("fault", "says nothing about the fault; add 'xid', 'lost: true' or both")
        return self


class Heal(_GpuAction):
    """Remove all faults that were injected into a GPU."""

    events = (FaultHealed,)

    @property
    def title(self) -> str:
        return f"heal {describe_gpu(self.gpu)}"


class PartitionGpu(NvidiaAction):
    """Replace the MIG devices of a GPU.

    Attributes:
        gpu: Its index.
        mig: Profiles of the MIG devices, placed in this order; none with ``[]``, and MIG mode off with `disabled`.
    """

    events = (GpuPartitioned,)

    gpu: Annotated[StrictInt, Field(ge=0)]
    mig: MigPartition

    @property
    def title(self) -> str:
        mig = self.mig if isinstance(self.mig, str) else ", ".join(self.mig) or "no devices"
        return f"MIG on GPU {self.gpu}: {mig}"


class FailNvml(NvidiaAction):
    """Let calls of the NVIDIA driver's library answer with an error, in every process on the node.

    Attributes:
        call: A function (`nvmlInit`), all versions of it; or with ``*`` at the end all functions that begin so.
        error: Its name in NVML, such as `GPU_IS_LOST`.
        gpu: Only calls about this GPU, by index.
        times: How many calls; all where it is left out.
    """

    events = (NvmlFailed,)

    call: Annotated[StrictStr, Field(pattern=r"^nvml[A-Za-z0-9_]*\*?$")]
    error: Annotated[StrictStr, Field(pattern="^[A-Z_]+$")]
    gpu: Annotated[StrictInt, Field(ge=0)] | None = None
    times: Annotated[StrictInt, Field(ge=1)] | None = None

    @property
    def title(self) -> str:
        return f"{self.call} answers {self.error}"


class HealNvml(NvidiaAction):
    """Let the library answer as usual again."""

    events = (NvmlHealed,)

    @property
    def title(self) -> str:
        return "NVML answers as usual"


class DeviceAction(HardwareAction):
    """Base of the verbs for one AMD GPU or one Iluvatar chip.

    Attributes:
        device: Its index, its id, `{heldBy: POD}` or `{free: true}`.
    """

    device: DeviceSelector

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        return ((self.device.held_by, ("device", "heldBy")),) if isinstance(self.device, HeldBy) else ()


class FailDevice(DeviceAction):
    """Let the vendor's monitor on the node report that an AMD GPU or an Iluvatar chip is unhealthy."""

    events = (FaultInjected,)

    @property
    def title(self) -> str:
        return f"{describe_device(self.device)} becomes unhealthy"


class HealDevice(DeviceAction):
    """Let the vendor's monitor report that the device is healthy again."""

    events = (FaultHealed,)

    @property
    def title(self) -> str:
        return f"heal {describe_device(self.device)}"
