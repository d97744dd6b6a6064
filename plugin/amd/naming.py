"""Which resources a node offers, and which devices belong to each.

Source: ROCm/k8s-device-plugin, cmd/k8s-device-plugin/main.go, ``getResourceList``; internal/pkg/plugin/plugin.go,
``ListAndWatch`` (August 2026).
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from ..errors import FatalError
from .discovery import AmdGpu

__all__ = ["NAMESPACE", "NamingStrategy", "devices_of", "resource_names"]

NAMESPACE: Final = "amd.com"
_GPU: Final = "gpu"


class NamingStrategy(StrEnum):
    """How resources are named."""

    SINGLE = "single"
    """``gpu``, whatever the partition mode is."""
    MIXED = "mixed"
    """After the partition mode, such as ``cpx_nps4``; ``gpu`` where there are no partitions."""


def resource_names(strategy: NamingStrategy, gpus: Collection[AmdGpu]) -> tuple[str, ...]:
    """The names behind ``amd.com/``, sorted; none without GPUs.

    Raises:
        FatalError: GPUs are partitioned in different ways, which have no single name.
    """
    partitions = _partitions(gpus)
    if not gpus:
        return ()
    if strategy is NamingStrategy.MIXED:
        return partitions or (_GPU,)
    if len(partitions) > 1:
        raise FatalError(
            "Error occured: Partitions of different styles across GPUs in a node is not supported with single "
            "strategy. Please start device plugin with mixed strategy"
        )
    return (_GPU,)


def devices_of(resource: str, gpus: Collection[AmdGpu]) -> tuple[AmdGpu, ...]:
    """The devices of one of these resources: all, where the GPUs of the node are partitioned alike or not at all."""
    if len(_partitions(gpus)) <= 1:
        return tuple(gpus)
    return tuple(gpu for gpu in gpus if f"{gpu.compute}_{gpu.memory}" == resource)


def _partitions(gpus: Collection[AmdGpu]) -> tuple[str, ...]:
    return tuple(sorted({gpu.partition for gpu in gpus} - {""}))
