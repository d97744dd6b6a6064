"""The text of a claim in the data of a checkpoint.

Source: pkg/kubelet/cm/dra/state/state.go (kubernetes v1.34.4, v1.35.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..golang.text import json_list, json_string
from ..model.version import Difference, Version
from .claim_info import ClaimInfo, PreparedDevice

__all__ = ["encode_info"]

_KEEPS_SHARE_IDS: Final = Difference(
    "the DRA manager's checkpoint has the share id of each device",
    {"1.26": False, "1.35": True},
    "pkg/kubelet/cm/dra/state/state.go, ``Device`` (kubernetes v1.34.4, v1.35.4)",
)


def encode_info(info: ClaimInfo, version: Version) -> str:
    """One claim, as it is in the data of a file."""
    has_share_ids = _KEEPS_SHARE_IDS.at(version)
    pods = ",".join(f"{json_string(pod)}:{{}}" for pod in sorted(info.pods))
    drivers = ",".join(
        f'{json_string(driver)}:{{"Devices":{_devices(info.drivers[driver], has_share_ids)}}}'
        for driver in sorted(info.drivers)
    )
    return (
        f'{{"ClaimUID":{json_string(info.uid)},"ClaimName":{json_string(info.name)},'
        f'"Namespace":{json_string(info.namespace)},"PodUIDs":{{{pods}}},"DriverState":{{{drivers}}}}}'
    )


def _devices(devices: Sequence[PreparedDevice] | None, has_share_ids: bool) -> str:
    return "null" if devices is None else _list(_device(device, has_share_ids) for device in devices)


def _device(device: PreparedDevice, has_share_ids: bool) -> str:
    share_id = "null" if device.share_id is None else json_string(device.share_id)
    share = f'"ShareID":{share_id},' if has_share_ids else ""
    return (
        f'{{"PoolName":{json_string(device.pool)},"DeviceName":{json_string(device.name)},{share}'
        f'"RequestNames":{_texts(device.requests)},"CDIDeviceIDs":{_texts(device.cdi_ids)}}}'
    )


def _texts(texts: Sequence[str] | None) -> str:
    return "null" if texts is None else json_list(texts)


def _list(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"
