"""The annotation in which Volcano's scheduler writes down the shares of GPUs that a pod is still to get; pure.

``uuid,type,memory,cores:`` for each device, a ``;`` between containers.

Source: pkg/util/util.go, ``DecodePodDevices``, ``EncodePodDevices`` (volcano-vgpu-device-plugin 4fb76ba).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .pods import unsigned

__all__ = ["Share", "read_shares", "written_shares"]


@dataclass(frozen=True, slots=True)
class Share:
    """One device of a container: blocks of a GPU's memory, percent of its cores."""

    uuid: str
    type: str
    memory: int
    cores: int

    @classmethod
    def read(cls, text: str) -> Share:
        """The part before a colon; a number that is none is 0."""
        uuid, type_, memory, cores, *_ = (*text.split(","), "", "", "")
        return cls(uuid, type_, unsigned(memory) or 0, unsigned(cores) or 0)

    def __str__(self) -> str:
        return f"{self.uuid},{self.type},{self.memory},{self.cores}:"


def read_shares(text: str) -> list[list[Share]]:
    """For each container what it is to get; no container where nothing is written."""
    return [
        [Share.read(part) for part in shares.split(":") if "," in part] for shares in (text.split(";") if text else ())
    ]


def written_shares(containers: Iterable[Iterable[Share]]) -> str:
    """The annotation for these."""
    return ";".join("".join(map(str, shares)) for shares in containers)
