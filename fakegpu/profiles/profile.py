"""GPU profiles: one model of GPU and the server around it, each figure with its source, by name or file.

A profile is a YAML file, in ``profiles/`` of the package or anywhere else. The number of GPUs is not part of it: a
machine with more GPUs than ``topology.slots`` has further servers of the same kind, each in PCI domains of its own.

A section of a profile names the documents that its figures come from: ``source: smi`` for all of them, or a mapping
such as ``source: {datasheet: [limitW], smi: [idleW, limitMinW, limitMaxW]}`` that names each figure once. The documents
stand under ``sources``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from ..errors import InputError
from ..state.event_type import EventType
from .document import SUFFIX, Part, Section, Sourced, is_file_name, parse_as, read_document
from .mig_profiles import NO_TABLE, mig_tables

PciAddress = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}$")]
"""Bus and device of a board in lower-case hex, as in ``1b:00``; with a domain before it where that is not 0."""

Text = Annotated[str, StringConstraints(pattern=r"^[ -~]*$")]
"""Characters of ASCII, which are one byte each in what NVML answers."""

Uuid = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
"""A UUID in lower-case hex."""

Celsius = Annotated[int, Field(ge=0, le=200)]
Watts = Annotated[int, Field(ge=0, le=10_000)]
Mebibytes = Annotated[int, Field(ge=0, le=1 << 24)]
Megahertz = Annotated[int, Field(gt=0, le=20_000)]

LINKS_MAX: Final = 18
_SERVER_SLOTS_MAX: Final = 64
_NAME: Final = re.compile(r"^[a-z0-9][a-z0-9.-]*$")
_MOST_KEPT: Final = 16


class Driver(Section):
    """Versions that the host reports."""

    version: str = Field(
        description="driver version, as in 580.95.05", max_length=31, pattern=r"^[0-9]+\.[0-9]+(\.[0-9]+)?$"
    )
    cuda: int = Field(description="CUDA version of the driver: 1000 x major + 10 x minor", ge=1000, lt=100_000)


class Identity(Section):
    """What the board says of itself."""

    name: Text = Field(max_length=95, description="product name, as nvidia-smi -L prints it")
    brand: Literal["tesla", "geforce", "nvidia"] = Field(description="product brand of nvidia-smi -q")
    architecture: Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell"]
    compute_capability: str = Field(pattern=r"^[0-9]{1,2}\.[0-9]$")
    cuda_cores: int = Field(gt=0, le=1_000_000)
    part_number: Text | None = Field(None, max_length=79, description="of the board; missing: not reported")
    vbios_version: Text = Field(max_length=31)
    inforom_image: Text = Field(max_length=15)
    inforom_oem: Text = Field(max_length=15)
    inforom_ecc: Text = Field(max_length=15)
    events: Sequence[Annotated[EventType, Field(strict=False)]] = Field(
        description="event types that can be registered"
    )


class Pcie(Section):
    """The PCI function and its link."""

    device_id: int = Field(ge=0, le=0xFFFF, description="PCI device id; the vendor is NVIDIA")
    subsystem_id: int = Field(ge=0, le=0xFFFFFFFF, description="subsystem device id and vendor, 16 bits each")
    generation: int = Field(ge=1, le=6, description="of the link between board and server")
    width: int = Field(gt=0, le=16)


class Memory(Section):
    """Device memory; sizes in MiB."""

    total_mib: Mebibytes = Field(gt=0)
    reserved_mib: Mebibytes = Field(description="kept by the driver, part of the total; rounded up as nvidia-smi does")
    bar1_mib: Mebibytes = Field(gt=0)
    bus_width_bits: int = Field(gt=0, le=65_536)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.reserved_mib >= self.total_mib:
            raise ValueError(f"reservedMib {self.reserved_mib} leaves nothing of totalMib {self.total_mib}")
        return self


class Thermal(Section):
    """Temperatures in degrees Celsius; a missing threshold or sensor is one the board does not have."""

    idle_c: Celsius
    memory_idle_c: Celsius | None = None
    shutdown_c: Celsius
    slowdown_c: Celsius
    gpu_max_c: Celsius
    memory_max_c: Celsius | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.idle_c <= self.gpu_max_c <= self.slowdown_c <= self.shutdown_c:
            raise ValueError("temperatures must rise: idleC, gpuMaxC, slowdownC, shutdownC")
        return self


class Fans(Section):
    """The board's own fans."""

    count: int = Field(gt=0, le=4)
    idle_percent: int = Field(ge=0, le=100)
    min_percent: int = Field(ge=0, le=100, description="lowest speed that can be asked for")
    max_rpm: int = Field(gt=0, le=100_000)


class PowerRange(Part):
    """A draw at rest and its limits, in watts."""

    idle_w: Watts = Field(gt=0)
    limit_w: Watts = Field(description="default limit, the power rating")
    limit_min_w: Watts
    limit_max_w: Watts

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if not self.limit_min_w <= self.limit_w <= self.limit_max_w:
            raise ValueError("limits must rise: limitMinW, limitW, limitMaxW")
        if self.idle_w > self.limit_max_w:
            raise ValueError(f"idleW {self.idle_w} is above limitMaxW {self.limit_max_w}")
        return self


class Power(PowerRange, Section):
    """Power of the board in watts."""

    memory_idle_w: Watts | None = Field(None, gt=0, description="of the memory alone; missing: not measured")
    module: PowerRange | None = Field(None, description="of the module of GPU and CPU; missing: the board is in none")


class ClockSet(Part):
    """One frequency for each domain, in MHz."""

    graphics: Megahertz
    sm: Megahertz
    memory: Megahertz
    video: Megahertz


class MemoryClock(Part):
    """One supported memory frequency and the highest graphics frequency at it, in MHz."""

    memory: Megahertz
    graphics_max: Megahertz


class Clocks(Section):
    """Frequencies in MHz."""

    idle: ClockSet
    maximum: ClockSet
    application: ClockSet | None = Field(None, description="missing: the board has no applications clocks")
    supported: Sequence[MemoryClock] = Field(min_length=1, max_length=8, description="highest memory clock first")
    graphics_min: Megahertz
    graphics_step: float = Field(
        ge=0.5, le=1000, description="between supported graphics clocks; NVML rounds down", strict=False
    )
    offset_max: int = Field(0, ge=0, le=10_000, description="over or under the board's curve; 0: it has no offsets")
    performance_states: Sequence[Annotated[int, Field(ge=0, le=15)]] = Field(
        min_length=1, description="supported P-states"
    )
    idle_performance_state: int

    @model_validator(mode="after")
    def _check(self) -> Self:
        memory = [clock.memory for clock in self.supported]
        if memory != sorted(memory, reverse=True) or self.maximum.memory != memory[0]:
            raise ValueError("supported memory clocks must fall, from maximum.memory on")
        if any(not self.graphics_min <= clock.graphics_max <= self.maximum.graphics for clock in self.supported):
            raise ValueError("each supported.graphicsMax must lie between graphicsMin and maximum.graphics")
        if self.idle_performance_state not in self.performance_states:
            raise ValueError("idlePerformanceState must be one of performanceStates")
        return self


class Features(Section):
    """What the model can do."""

    ecc: Literal["absent", "disabled", "enabled"] = Field(description="and whether it is on as delivered")
    remap_banks: int | None = Field(
        None, gt=0, le=65_536, description="memory banks that can remap rows; a board without retires pages instead"
    )
    mig: str = Field(description="table of mig_profiles.yaml that says how it can be partitioned, or none")
    encoder: bool = Field(description="encodes video")
    jpeg_engine: bool
    optical_flow_engine: bool
    black_box: bool = Field(False, description="reports when its inforom last recorded the state of the board")
    gsp_firmware: bool = Field(True, description="runs the driver's firmware on the board")
    addressing: Literal["none", "hmm", "ats"] = Field("hmm", description="how GPU and CPU share addresses")
    c2c: Literal["disabled", "enabled"] | None = Field(
        None, alias="c2c", description="NVLink to the CPU; missing: not reported"
    )

    @field_validator("mig")
    @classmethod
    def _check_mig(cls, name: str) -> str:
        if name != NO_TABLE and name not in mig_tables():
            raise ValueError(f"no MIG table '{name}'; there are {', '.join(mig_tables())} and {NO_TABLE}")
        return name


class NvSwitch(Part):
    """One NVSwitch and how many links of each GPU end in it."""

    address: PciAddress | None = Field(None, description="missing: it stands outside the server")
    links: int = Field(gt=0, le=LINKS_MAX)


class Bridge(Part):
    """Links between two slots, without a switch."""

    slots: Sequence[int] = Field(min_length=2, max_length=2, description="positions in topology.slots, from 0")
    links: int = Field(gt=0, le=LINKS_MAX)


class NvLink(Section):
    """The links of each GPU: to NVSwitches, or from slot to slot."""

    version: int = Field(ge=1, le=6)
    switch_device_id: int | None = Field(None, ge=0, le=0xFFFF, description="PCI device id of an NVSwitch")
    switches: Sequence[NvSwitch] = ()
    bridges: Sequence[Bridge] = ()
    has_fabric: bool = Field(False, description="GPUs register with the fabric manager's fabric (Hopper and newer)")
    cluster_uuid: Uuid | None = Field(
        None, description="of the fabric that joins several servers; missing: zeros, it ends at this server"
    )
    clique_id: int = Field(
        0, ge=0, lt=1 << 32, description="GPUs of a fabric that may use each other's memory share it"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.switches) == bool(self.bridges):
            raise ValueError("links need switches or bridges, one of the two")
        if sum(switch.links for switch in self.switches) > LINKS_MAX:
            raise ValueError(f"a GPU has at most {LINKS_MAX} links")
        if any(switch.address for switch in self.switches) and self.switch_device_id is None:
            raise ValueError("switches with an address need switchDeviceId")
        if (self.cluster_uuid or self.clique_id) and not self.has_fabric:
            raise ValueError("clusterUuid and cliqueId need hasFabric")
        return self


class Slot(Part):
    """Where one GPU sits. Slots of equal number share the switch, the tree of switches or the host bridge."""

    address: PciAddress
    numa_node: int = Field(ge=0, le=1023)
    module: int | None = Field(None, gt=0, le=64, description="position on the baseboard; missing: place in this list")
    pcie_switch: int | None = Field(None, ge=0, lt=256, description="missing: no other GPU below this switch")
    switch_tree: int | None = Field(None, ge=0, lt=256)
    host_bridge: int | None = Field(None, ge=0, lt=256)


class Topology(Section):
    """The server around the GPUs."""

    cpus_per_numa_node: int = Field(gt=0, le=1024)
    slots: Sequence[Slot] = Field(min_length=1, max_length=_SERVER_SLOTS_MAX)

    @model_validator(mode="after")
    def _check(self) -> Self:
        addresses = [slot.address for slot in self.slots]
        if twice := next((address for address in addresses if addresses.count(address) > 1), None):
            raise ValueError(f"two slots have the address {twice}")
        return self


class Profile(Sourced):
    """One model of GPU in one kind of server."""

    driver: Driver
    identity: Identity
    pcie: Pcie
    memory: Memory
    thermal: Thermal
    fans: Fans | None = Field(None, description="missing: cooled by the server")
    power: Power
    clocks: Clocks
    features: Features
    nvlink: NvLink | None = None
    topology: Topology

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.nvlink is not None:
            _check_bridges(self.nvlink.bridges, len(self.topology.slots))
        return self


def _check_bridges(bridges: Sequence[Bridge], slots: int) -> None:
    links = [0] * slots
    for bridge in bridges:
        for slot in bridge.slots:
            if not 0 <= slot < slots:
                raise ValueError(f"nvlink.bridges: no slot {slot}, topology has {slots}")
            links[slot] += bridge.links
    if max(links) > LINKS_MAX:
        raise ValueError(f"nvlink.bridges: a GPU has at most {LINKS_MAX} links")


@cache
def profile_names() -> tuple[str, ...]:
    """Return the names of the bundled profiles, sorted."""
    folder = files(__package__)
    return tuple(sorted(entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)))


def profile_text(name: str) -> str:
    """Return the YAML of one profile, by the name of one of the package or by its file.

    Raises:
        InputError: no profile has this name, or the file cannot be read.
    """
    if is_file_name(name):
        return read_document(name)
    if not _NAME.fullmatch(name) or name not in profile_names():
        raise InputError(
            f"no GPU profile '{name}'; there are {', '.join(profile_names())}, or give a file, ./NAME.yaml"
        )
    return (files(__package__) / f"{name}{SUFFIX}").read_text(encoding="utf-8")


@lru_cache(_MOST_KEPT)
def parse_profile(text: str, where: str) -> Profile:
    """Read YAML as a profile; each node of a cluster makes a machine of the same one.

    Raises:
        InputError: as ``document.parse_as``.
    """
    return parse_as(Profile, text, where)


def load_profile(name: str) -> Profile:
    """Return a profile, by the name of one of the package or by its file.

    Raises:
        InputError: as ``profile_text`` and ``parse_profile``.
    """
    return parse_profile(profile_text(name), name if is_file_name(name) else f"{name}{SUFFIX}")
