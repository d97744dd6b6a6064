"""GPU profiles: what one model of GPU is, and how a server places several of them.

A profile is a YAML file in ``profiles/``, with camelCase keys. Each file names its sources. The number of GPUs is not
part of it: a machine with more GPUs than ``topology.slots`` repeats the slots in the next PCI domain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from .errors import InputError
from .event_type import EventType

PciAddress = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{2}:[0-9a-f]{2}$")]
"""Bus and device of a board in lower-case hex, as in ``1b:00``; its domain and function are 0."""

_NAME: Final = re.compile(r"^[a-z0-9][a-z0-9.-]*$")


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True)


class Driver(_Part):
    """Versions that the host reports."""

    version: str = Field(description="driver version, as in 580.95.05")
    cuda: int = Field(description="CUDA version of the driver: 1000 x major + 10 x minor")


class Identity(_Part):
    """What the board says of itself."""

    name: str = Field(max_length=95, description="product name, as nvidia-smi -L prints it")
    brand: Literal["tesla", "nvidia"] = Field(description="product brand of nvidia-smi -q")
    architecture: Literal["turing", "ampere", "hopper"]
    compute_capability: str = Field(pattern=r"^\d+\.\d$")
    cuda_cores: int = Field(gt=0)
    part_number: str = Field(max_length=79)
    vbios_version: str = Field(max_length=31)
    inforom_image: str = Field(max_length=15)
    events: Sequence[Annotated[EventType, Field(strict=False)]] = Field(
        description="event types that can be registered"
    )


class Pcie(_Part):
    """The PCI function and its link."""

    device_id: int = Field(ge=0, le=0xFFFF, description="PCI device id; the vendor is NVIDIA")
    subsystem_id: int = Field(ge=0, le=0xFFFFFFFF, description="subsystem device id and vendor, 16 bits each")
    generation: int = Field(ge=1, le=6)
    width: int = Field(gt=0, le=16)


class Memory(_Part):
    """Device memory; sizes in MiB."""

    total_mib: int = Field(gt=0)
    reserved_mib: int = Field(ge=0, description="kept by the driver, part of the total")
    bar1_mib: int = Field(gt=0)
    bus_width_bits: int = Field(gt=0)


class Thermal(_Part):
    """Temperatures in degrees Celsius; a missing threshold or sensor is one the board does not have."""

    idle_c: int
    memory_idle_c: int | None = None
    shutdown_c: int
    slowdown_c: int
    gpu_max_c: int
    memory_max_c: int | None = None


class Power(_Part):
    """Power in watts."""

    idle_w: int
    limit_w: int = Field(description="default limit, the board's power rating")
    limit_min_w: int
    limit_max_w: int


class ClockSet(_Part):
    """One frequency for each domain, in MHz."""

    graphics: int
    sm: int
    memory: int
    video: int


class Clocks(_Part):
    """Frequencies in MHz."""

    idle: ClockSet
    maximum: ClockSet
    application: ClockSet
    supported_memory: Sequence[int] = Field(min_length=1, max_length=8)
    graphics_min: int
    graphics_step: int = Field(gt=0)
    performance_states: Sequence[int] = Field(min_length=1, description="supported P-states")
    idle_performance_state: int


class Features(_Part):
    """What the model can do."""

    ecc: bool
    row_remapping: bool = Field(description="remaps rows of memory; other boards retire pages")
    mig: bool
    jpeg_engine: bool
    optical_flow_engine: bool


class NvSwitch(_Part):
    """One NVSwitch and how many links of each GPU end in it."""

    address: PciAddress
    links: int = Field(gt=0)


class NvLink(_Part):
    """The links of each GPU, all of which end in NVSwitches; their sum is the number of links."""

    version: int
    switch_device_id: int = Field(ge=0, le=0xFFFF)
    switches: Sequence[NvSwitch] = Field(min_length=1)
    has_fabric: bool = Field(description="GPUs register with the fabric manager's fabric (Hopper and newer)")


class Slot(_Part):
    """Where one GPU sits. Slots of equal number share the switch, the tree of switches or the host bridge."""

    address: PciAddress
    numa_node: int = Field(ge=0)
    pcie_switch: int | None = Field(None, description="missing: no other GPU below this switch")
    switch_tree: int | None = None
    host_bridge: int | None = None


class Topology(_Part):
    """The server around the GPUs."""

    cpus_per_numa_node: int = Field(gt=0)
    slots: Sequence[Slot] = Field(min_length=1)


class Profile(_Part):
    """One model of GPU in one kind of server."""

    description: str
    source: Sequence[str] = Field(description="documents that the figures come from")
    driver: Driver
    identity: Identity
    pcie: Pcie
    memory: Memory
    thermal: Thermal
    power: Power
    clocks: Clocks
    features: Features
    nvlink: NvLink | None = None
    topology: Topology


def profile_names() -> tuple[str, ...]:
    """Names of the profiles that come with the package, sorted."""
    folder = files(__package__) / "profiles"
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def profile_text(name: str) -> str:
    """The YAML of one profile.

    Raises:
        InputError: no profile has this name.
    """
    if not _NAME.match(name) or name not in profile_names():
        raise InputError(f"no GPU profile '{name}'; there are {', '.join(profile_names())}")
    return (files(__package__) / "profiles" / f"{name}.yaml").read_text(encoding="utf-8")


def parse_profile(text: str, where: str) -> Profile:
    """Reads YAML as a profile.

    Args:
        text: the YAML.
        where: name of the file, for the message.

    Raises:
        InputError: a key is unknown or missing, or a value has the wrong type; names the first such key.
    """
    try:
        return Profile.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {key}: {first['msg']}") from None


def load_profile(name: str) -> Profile:
    """One of the package's profiles, by name.

    Raises:
        InputError: no profile has this name.
    """
    return parse_profile(profile_text(name), f"{name}.yaml")
