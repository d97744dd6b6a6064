"""AMD GPU profiles: one model of GPU, how it can be partitioned, and the server around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import Field

from ...errors import InputError
from ...profiles.document import SUFFIX, Part, Section, Sourced, is_file_name, parse_as, read_document
from ...profiles.profile import Mebibytes, Megahertz, PciAddress, Text

__all__ = [
    "AmdIdentity",
    "AmdMemory",
    "AmdProfile",
    "AmdServer",
    "AmdSlot",
    "Link",
    "Partitions",
    "amd_profile_names",
    "load_amd_profile",
]

_Parts = Annotated[int, Field(gt=0, le=8)]


class AmdIdentity(Section):
    """What PCI and KFD say of one GPU that is not partitioned."""

    name: Text
    device_id: int = Field(ge=0, le=0xFFFF, description="PCI device id; the vendor is AMD")
    subsystem_id: int = Field(ge=0, le=0xFFFFFFFF, description="subsystem device id and vendor, 16 bits each")
    gfx_target_version: int = Field(ge=0, lt=1_000_000, description="as KFD writes gfx90a: 90010")
    simd_count: int = Field(gt=0, le=65_536)
    simd_per_cu: int = Field(gt=0, le=64)
    max_clock_mhz: Megahertz


class AmdMemory(Section):
    """Device memory of one GPU that is not partitioned."""

    total_mib: Mebibytes = Field(gt=0)
    width_bits: int = Field(gt=0, le=65_536)
    max_clock_mhz: Megahertz


class Partitions(Section):
    """In how many parts each mode cuts a GPU."""

    compute: Mapping[str, _Parts] = Field(min_length=1, description="mode, such as cpx, and its number of partitions")
    memory: Mapping[str, _Parts] = Field(
        min_length=1, description="mode, such as nps4, and its number of memory ranges"
    )


class Link(Part):
    """One kind of link as KFD describes it."""

    type: int = Field(ge=1, description="1 HyperTransport, 2 PCIe, 11 XGMI")
    weight: int = Field(gt=0)
    bandwidth: int = Field(0, ge=0, description="MB/s; 0: not reported")


class AmdSlot(Part):
    """Where one GPU sits, and which hive of directly linked GPUs it is part of."""

    address: PciAddress
    numa_node: int = Field(ge=0, le=1023)
    hive: int | None = Field(None, ge=0, description="missing: no XGMI")


class AmdServer(Section):
    """The server around the GPUs, and its links."""

    cpus_per_numa_node: int = Field(gt=0, le=1024)
    cpu_link: Link = Field(description="between two NUMA nodes")
    pcie: Link = Field(description="between a GPU and the CPUs of its NUMA node")
    xgmi: Link | None = Field(None, description="between GPUs of one hive")
    inside: Link | None = Field(None, description="between partitions of one GPU")
    slots: Sequence[AmdSlot] = Field(min_length=1)


class AmdProfile(Sourced):
    """One model of AMD GPU in one kind of server."""

    identity: AmdIdentity
    memory: AmdMemory
    partitions: Partitions | None = Field(None, description="missing: it cannot be partitioned")
    server: AmdServer


@cache
def amd_profile_names() -> tuple[str, ...]:
    """Names of the AMD profiles that come with the package, sorted."""
    folder = files(__package__) / "profiles"
    return tuple(sorted(entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)))


def load_amd_profile(name: str) -> AmdProfile:
    """An AMD profile, by the name of one of the package or by its file.

    Raises:
        InputError: there is none, or it is wrong; names the first such place by file and line.
    """
    if is_file_name(name):
        return parse_as(AmdProfile, read_document(name), name)
    if name not in amd_profile_names():
        raise InputError(f"no AMD profile '{name}'; there are {', '.join(amd_profile_names())}")
    text = (files(__package__) / "profiles" / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    return parse_as(AmdProfile, text, f"amd/{name}{SUFFIX}")
