"""Which devices to give to a container: aligned for whole GPUs, distributed for everything else.

How close GPUs are to each other is a score for each pair.

Source: internal/rm/nvml_manager.go, ``getPreferredAllocation``, and tegra_manager.go (k8s-device-plugin v0.19.0);
gpuallocator/device.go, internal/links, and besteffort_policy.go for the scores (go-gpuallocator v0.6.0). The error
texts are the originals'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from ..framework import DeviceID
from ..nvml.nvml import MAX_NVLINKS, GpuHandle, Nvml, NvmlError, NvmlReturn, session
from ..preference import NotEnoughDevicesError, aligned_set, distributed_devices, is_replica
from .discovery.discovery import DiscoveryError, visible_gpus
from .discovery.resources import NvidiaResource

__all__ = ["LinkGraph", "LinkGraphError", "PreferenceError", "preferred_devices", "read_link_graph"]


class PreferenceError(Exception):
    """The question cannot be answered."""


def preferred_devices(
    nvml: Nvml, resource: NvidiaResource, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
) -> list[DeviceID]:
    """`size` of the available devices, the required ones among them; empty where no set of whole GPUs fulfils this.

    Raises:
        PreferenceError: the links between the GPUs cannot be read, an id is unknown, or too few are available.
    """
    if (
        not resource.is_tegra
        and all(device.is_full_gpu for device in resource.devices.values())
        and not any(map(is_replica, available))
    ):
        return _aligned(nvml, available, required, size)
    try:
        return distributed_devices(resource.devices.keys(), available, required, size)
    except NotEnoughDevicesError as error:
        raise PreferenceError(str(error)) from error


def _aligned(nvml: Nvml, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int) -> list[DeviceID]:
    """By links read again, as GPUs may have come and gone."""
    unreadable = "unable to get device link information"
    try:
        with session(nvml):
            graph = read_link_graph(nvml)
    except NvmlError as error:
        raise PreferenceError(f"{unreadable}: error calling nvml.Init: {error}") from error
    except LinkGraphError as error:
        raise PreferenceError(f"{unreadable}: {error}") from error
    positions = {uuid: position for position, uuid in enumerate(graph.uuids)}
    chosen = aligned_set(
        _positions(positions, available, "available"), _positions(positions, required, "required"), size, graph.scores
    )
    return [DeviceID(graph.uuids[position]) for position in chosen]


def _positions(positions: dict[str, int], device_ids: Sequence[DeviceID], role: str) -> list[int]:
    unknown = next((device_id for device_id in device_ids if device_id not in positions), None)
    if unknown is not None:
        raise PreferenceError(f"unable to retrieve list of {role} devices: no device with uuid: {unknown}")
    return [positions[device_id] for device_id in device_ids]


_ANCESTOR_SCORES: Final[Mapping[int, int]] = MappingProxyType(
    {
        0: 60,  # the same board
        10: 50,  # a single switch between them
        20: 40,  # several switches
        30: 30,  # a host bridge
        40: 20,  # the same CPU
        50: 10,  # across CPUs
    }
)
_NVLINK_SCORE: Final = 100


class LinkGraphError(Exception):
    """The links could not be read."""


class LinkGraph(NamedTuple):
    """The GPUs, and in `scores[i][j]` the score of the links from ``uuids[i]`` to ``uuids[j]``."""

    uuids: tuple[str, ...]
    scores: tuple[tuple[int, ...], ...]


def read_link_graph(nvml: Nvml) -> LinkGraph:
    """Read the graph of all visible GPUs; NVML must be initialised.

    Raises:
        LinkGraphError: any call failed, or two GPUs do not agree whether NVLinks join them.
    """
    try:
        gpus = [gpu for _, gpu in visible_gpus(nvml)]
    except DiscoveryError as error:
        raise LinkGraphError(f"failed to get devices: {error}") from error
    uuids, bus_ids = _identities(nvml, gpus)
    paths = _path_scores(nvml, gpus)
    links = _nvlink_counts(nvml, gpus, bus_ids)
    pairs = range(len(gpus))
    scores = tuple(tuple(paths[i][j] + _NVLINK_SCORE * links[i][j] for j in pairs) for i in pairs)
    return LinkGraph(tuple(uuids), scores)


def _identities(nvml: Nvml, gpus: list[GpuHandle]) -> tuple[list[str], list[str]]:
    uuids, bus_ids = [], []
    for gpu in gpus:
        step = "uuid"
        try:
            uuids.append(nvml.uuid(gpu))
            step = "pci info"
            bus_ids.append(nvml.pci_bus_id(gpu))
        except NvmlError as error:
            raise LinkGraphError(f"failed to construct linked device: failed to get device {step}: {error}") from error
    return uuids, bus_ids


def _path_scores(nvml: Nvml, gpus: list[GpuHandle]) -> list[list[int]]:
    scores = [[0] * len(gpus) for _ in gpus]
    for i, gpu in enumerate(gpus):
        for j, other in enumerate(gpus):
            if i == j:
                continue
            pair = f"error getting P2PLink for devices ({i}, {j})"
            try:
                level = nvml.common_ancestor(gpu, other)
            except NvmlError as error:
                # The misspelling is the original's.
                raise LinkGraphError(f"{pair}: failed to get commmon anscestor: {error}") from error
            if level not in _ANCESTOR_SCORES:
                raise LinkGraphError(f"{pair}: unknown topology level: {level}")
            scores[i][j] = _ANCESTOR_SCORES[level]
    return scores


def _nvlink_counts(nvml: Nvml, gpus: list[GpuHandle], bus_ids: list[str]) -> list[list[int]]:
    remotes = [_remote_bus_ids(nvml, i, gpu) for i, gpu in enumerate(gpus)]
    counts = [[remotes[i][bus_ids[j]] if i != j else 0 for j in range(len(gpus))] for i in range(len(gpus))]
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            if (count == 0) != (counts[j][i] == 0):
                # The original panics here and takes the plugin down.
                raise LinkGraphError(f"GPU {i} has {count} NVLinks to GPU {j}, but {counts[j][i]} lead back")
    return counts


def _remote_bus_ids(nvml: Nvml, index: int, gpu: GpuHandle) -> Counter[str]:
    remotes: Counter[str] = Counter()
    for link in range(MAX_NVLINKS):
        step = "failed to get nvlink state"
        try:
            if nvml.nvlink_is_enabled(gpu, link):
                step = "failed to get remote pci info"
                remotes[nvml.nvlink_remote_bus_id(gpu, link)] += 1
        except NvmlError as error:
            if error.code not in (NvmlReturn.NOT_SUPPORTED, NvmlReturn.INVALID_ARGUMENT):
                other = 1 if index == 0 else 0
                raise LinkGraphError(
                    f"error getting NVLink for devices ({index}, {other}): "
                    f"failed to get nvlink remote pci info: {step}: {error}"
                ) from error
    return remotes
