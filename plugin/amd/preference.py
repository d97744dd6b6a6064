"""Which GPUs and partitions fit best together; pure.

Partitions of one GPU stay together where they can, the GPU with the fewest free ones that suffice goes first, and of
several choices the one with the lowest weight wins, first come on ties. The weight of a choice is that of all its
pairs: near ones weigh little.

Source: ROCm/k8s-device-plugin, internal/pkg/allocator/device.go and besteffort_policy.go (August 2026); the error texts
are the original's. It tries GPUs in every order, which gives each choice several times: here each is tried once, in
the order in which it comes first there. Where it finds no choice at all the original crashes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from ..framework import DeviceID
from .discovery import AmdGpu, KfdLink

__all__ = ["PairWeights", "PreferenceError", "pair_weights", "preferred_devices"]

PairWeights: TypeAlias = Mapping[tuple[int, int], int]
"""The weights of pairs of KFD nodes, the lower number first; a pair that is not in it weighs nothing."""

_XGMI: Final = 11
_PCIE: Final = 2
_LINK_WEIGHTS: Final = {_XGMI: 10, _PCIE: 40}
_OTHER_LINK_WEIGHT: Final = 50
_SAME: Final = 10
_DIFFERENT: Final = 20


class PreferenceError(Exception):
    """The question cannot be answered."""


def pair_weights(gpus: Collection[AmdGpu], links: Iterable[KfdLink]) -> dict[tuple[int, int], int]:
    """The weight of each pair that is linked."""
    by_node = {gpu.node: gpu for gpu in gpus}
    weights = {}
    for link in links:
        pair = (min(link.source, link.target), max(link.source, link.target))
        if (one := by_node.get(pair[0])) is not None and (other := by_node.get(pair[1])) is not None:
            weights[pair] = (
                (_SAME if one.parent == other.parent else _DIFFERENT)
                + _LINK_WEIGHTS.get(link.kind, _OTHER_LINK_WEIGHT)
                + (_SAME if one.numa_node == other.numa_node else _DIFFERENT)
            )
    return weights


def preferred_devices(
    gpus: Mapping[DeviceID, AmdGpu],
    weights: PairWeights,
    available: Sequence[DeviceID],
    required: Sequence[DeviceID],
    size: int,
) -> Sequence[DeviceID]:
    """The devices to prefer.

    Args:
        gpus: All of the node.
        weights: Of their pairs.
        available: Those to choose from, `required` among them.
        required: Those that the answer must have.
        size: How many the answer must have.

    Raises:
        PreferenceError: there is no such choice.
    """
    _refuse(available, required, size, gpus, weights)
    if len(available) == size:
        return available
    if len(required) == size:
        return required
    if not set(required) <= set(available) or not set(available) <= gpus.keys():
        raise PreferenceError(_NO_CANDIDATE)
    fixed = tuple(gpus[device_id].node for device_id in required)
    free = {gpus[device_id].node for device_id in available} - set(fixed)
    groups = _free_by_gpu(gpus.values(), free)
    choices = ((*chosen, *fixed) for chosen in _choices(groups, size - len(required)))
    best = min(choices, key=lambda nodes: _weight(nodes, weights), default=None)
    if best is None:
        raise PreferenceError(_NO_CANDIDATE)
    names = {gpus[device_id].node: device_id for device_id in reversed(available)}
    return [names[node] for node in best]


_NO_CANDIDATE: Final = "No candidate subset found with matching criteria"


def _refuse(
    available: Sequence[DeviceID],
    required: Sequence[DeviceID],
    size: int,
    gpus: Mapping[DeviceID, AmdGpu],
    weights: PairWeights,
) -> None:
    if size <= 0:
        raise PreferenceError("allocation size can not be negative")
    if len(available) < size:
        raise PreferenceError("available devices count less than allocation size")
    if len(required) > size:
        raise PreferenceError("must_include devices size is more than allocation size")
    if len(required) > len(available):
        # The misspelling is the original's.
        raise PreferenceError("must_include length should be less than or equal to avilable device size")
    if not gpus or not weights:
        raise PreferenceError("Init method must be called before Allocate")


def _free_by_gpu(gpus: Iterable[AmdGpu], free: Collection[int]) -> list[tuple[int, ...]]:
    """The free nodes of each GPU, sorted; the GPU with the fewest first, then by the PCI address of its first part."""
    nodes: defaultdict[str, list[int]] = defaultdict(list)
    addresses: dict[str, str] = {}
    for gpu in gpus:
        if not gpu.device_id.startswith("amdgpu_xcp"):
            addresses[gpu.parent] = gpu.device_id
        if gpu.node in free:
            nodes[gpu.parent].append(gpu.node)
    order = sorted(nodes, key=lambda parent: (len(nodes[parent]), addresses.get(parent, "")))
    return [tuple(sorted(nodes[parent])) for parent in order]


def _choices(groups: Sequence[tuple[int, ...]], size: int) -> Iterator[tuple[int, ...]]:
    """All of some groups and the first nodes of one more, `size` together; those of few groups come first."""
    for count in range(len(groups)):
        for whole in combinations(range(len(groups)), count):
            chosen = tuple(node for index in whole for node in groups[index])
            missing = size - len(chosen)
            if missing <= 0:
                continue
            for index, group in enumerate(groups):
                if index not in whole and len(group) >= missing:
                    yield (*chosen, *group[:missing])


def _weight(nodes: Sequence[int], weights: PairWeights) -> int:
    return sum(weights.get(pair, 0) for pair in combinations(sorted(nodes), 2))
