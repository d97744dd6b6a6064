"""The text of a claim in the data of a checkpoint: how it is written, and claims that stay texts until they are needed.

A kubelet that starts has to know that all claims of its checkpoint can be used, and needs few of them at once. A text
that is as the kubelet itself would write it is a claim without doubt: one pattern finds all of them in a fraction of
the time that it takes to make them, and they need not be written again.

Source: pkg/kubelet/cm/dra/state/state.go (kubernetes v1.34.4, v1.35.4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from ..golang.text import json_list, json_string
from ..model.version import Difference, Version
from .claim_info import ClaimInfo, PreparedDevice
from .claim_values import read_infos

__all__ = ["UnreadClaim", "encode_info", "find_claims"]

_KEEPS_SHARE_IDS: Final = Difference(
    "the DRA manager's checkpoint has the share id of each device",
    {"1.26": False, "1.35": True},
    "pkg/kubelet/cm/dra/state/state.go, ``Device`` (kubernetes v1.34.4, v1.35.4)",
)

_CHARACTERS: Final = r"[ !#-%'-;=?-\[\]-~]*+"
"""Characters of ASCII that Go's JSON encoder writes as they are."""


class UnreadClaim(NamedTuple):
    """A claim of a checkpoint that nobody has asked for since.

    Attributes:
        text: as `encode_info` writes the claim; only the order of several pods or drivers may be another one.
    """

    text: str
    name: str
    namespace: str

    @property
    def is_in_order(self) -> bool:
        """Whether the order is surely that of `encode_info`: there is no second pod and no second driver."""
        # This comes before DriverState, and before each pod and driver but the first.
        return self.text.count('},"') == 1

    def read(self) -> ClaimInfo:
        (info,) = read_infos([json.loads(self.text)])
        return info


def find_claims(text: str, version: Version) -> list[UnreadClaim]:
    """The claims in a text; what is between them, or is written in another way than `encode_info` does, is passed over.

    A claim whose names have other characters than those of ASCII, or some that JSON escapes, is passed over as well.
    """
    return list(map(UnreadClaim._make, _pattern(_KEEPS_SHARE_IDS.at(version)).findall(text)))


@cache
def _pattern(has_share_ids: bool) -> re.Pattern[str]:
    """What `encode_info` writes; its groups are the fields of `UnreadClaim`.

    Nothing that has matched is tried in another way, so a text takes time in proportion to its length.
    """
    text = f'"{_CHARACTERS}"'
    texts = rf"(?:null|\[{_several(text)}\])"
    share = f'"ShareID":(?:null|{text}),' if has_share_ids else ""
    device = rf'\{{"PoolName":{text},"DeviceName":{text},{share}"RequestNames":{texts},"CDIDeviceIDs":{texts}\}}'
    driver = rf'{text}:\{{"Devices":(?:null|\[{_several(device)}\])\}}'
    pods, drivers = _several(rf"{text}:\{{\}}"), _several(driver)
    names = f'"ClaimUID":{text},"ClaimName":"({_CHARACTERS})","Namespace":"({_CHARACTERS})"'
    return re.compile(rf'(\{{{names},"PodUIDs":\{{{pods}\}},"DriverState":\{{{drivers}\}}\}})')


def _several(one: str) -> str:
    """Any number of what a pattern matches, up to a bracket, with commas in between."""
    return rf"(?:{one}(?:,(?![\]}}])|(?=[\]}}])))*+"


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
