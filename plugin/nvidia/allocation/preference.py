"""Which devices to give to a container: aligned for whole GPUs, distributed for everything else.

Source: internal/rm/nvml_manager.go, ``getPreferredAllocation``, and tegra_manager.go (k8s-device-plugin v0.19.0); the
error texts are the original's.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...framework.device import DeviceID
from ...nvml.nvml import Nvml, NvmlError, session
from ...preference.distributed import NotEnoughDevicesError, distributed_devices, is_replica
from ..discovery.resources import NvidiaResource

__all__ = ["PreferenceError", "preferred_devices"]


class PreferenceError(Exception):
    """The question cannot be answered."""


def preferred_devices(
    nvml: Nvml, resource: NvidiaResource, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
) -> list[DeviceID]:
    """`size` of the available devices, the required ones among them; empty where whole GPUs cannot be had so.

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
    """By links read anew, as GPUs may have come and gone."""
    from ...preference.aligned import aligned_set
    from .link_graph import LinkGraphError, read_link_graph

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
