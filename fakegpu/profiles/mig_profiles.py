"""How models of GPU can be partitioned: the tables of ``mig_profiles.yaml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from ..state import layout
from .document import LOADER

KINDS: Final = (
    "1_SLICE",
    "2_SLICE",
    "3_SLICE",
    "4_SLICE",
    "7_SLICE",
    "8_SLICE",
    "6_SLICE",
    "1_SLICE_REV1",
    "2_SLICE_REV1",
    "1_SLICE_REV2",
)
"""Ends of ``NVML_GPU_INSTANCE_PROFILE_*``, by value."""

NO_TABLE: Final = "none"


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, defer_build=True
    )


class MigProfileFigures(_Part):
    """What one GPU instance profile gives."""

    kind: str
    id: int = Field(description="as nvidia-smi mig -lgip prints it")
    instances: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    jpegs: int
    ofas: int
    memory_mib: int
    size: int = Field(description="memory slices of one instance")
    starts: Sequence[int] = Field(description="memory slices at which an instance may start")


class MigTable(_Part):
    """The profiles of one model."""

    sources: Sequence[str]
    compute_slices: int
    memory_slices: int
    needs_reset: bool = Field(description="a change of the MIG mode needs a reset of the GPU")
    profiles: Mapping[str, MigProfileFigures] = Field(description="by name")


@cache
def mig_tables() -> Mapping[str, MigTable]:
    """All tables by name."""
    text = (files(__package__) / "tables" / "mig_profiles.yaml").read_text(encoding="utf-8")
    content = yaml.load(text, Loader=LOADER)  # noqa: S506 - one of the safe loaders
    return {name: MigTable.model_validate(table) for name, table in content.items()}


def fill_mig(state: layout.GpuState, name: str) -> None:
    """Let a GPU be partitioned as the table ``name`` says; ``NO_TABLE`` for a model without MIG."""
    if name == NO_TABLE:
        return
    table, mig = mig_tables()[name], state.mig
    state.modes.mig_supported = True
    mig.memory_slices, mig.compute_slices = table.memory_slices, table.compute_slices
    mig.needs_reset = table.needs_reset
    for profile_name, figures in table.profiles.items():
        profile = mig.profiles[KINDS.index(figures.kind)]
        profile.name = profile_name.encode()
        profile.is_here = True
        profile.slices = int(profile_name.partition("g")[0])
        for member in ("id", "instances", "multiprocessors", "copy_engines", "decoders", "jpegs", "ofas", "size"):
            setattr(profile, member, getattr(figures, member))
        profile.memory_mib = figures.memory_mib
        profile.starts = sum(1 << start for start in figures.starts)
    mig.slice_multiprocessors = mig.profiles[KINDS.index("1_SLICE")].multiprocessors
