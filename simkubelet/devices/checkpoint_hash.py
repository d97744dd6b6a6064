"""The checksum of the checkpoint: FNV-1a, 32 bits, over the text that Go's spew prints for its data.

Source: devicemanager/checkpoint/checkpoint.go, checkpointmanager/checksum/checksum.go (kubernetes v1.26.15 to v1.37.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from .._internal import native
from ..golang.text import spew_list

__all__ = ["FNV_OFFSET", "before_registered", "devices_text", "entry_text", "fnv1a", "lists_text", "registered_text"]

FNV_OFFSET: Final = 0x811C9DC5
_DECIMALS: Final = tuple(map(str, range(256)))


def fnv1a(text: bytes, hash_before: int = FNV_OFFSET) -> int:
    """The hash of a text that follows one with the hash `hash_before`."""
    digest: int = native.library().simkubelet_fnv1a(hash_before, text, len(text))
    return digest


def before_registered(entries: str) -> str:
    """The text up to the registered devices; `entries` is ``<nil>``, or those of `entry_text` in brackets."""
    return f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries}"


def registered_text(lists: str) -> str:
    """The rest of the text; `lists` is ``<nil>`` or a ``map[…]``."""
    return f" RegisteredDevices:(map[string][]string){lists}}}"


def lists_text(items: Iterable[tuple[object, Sequence[str] | None]]) -> str:
    """The inside of a map to lists of strings; the caller has sorted the items by their keys."""
    return " ".join(f"{key}:{spew_list(texts)}" for key, texts in items)


def devices_text(device_ids: Iterable[tuple[int, Sequence[str] | None]] | None) -> str:
    """The devices of an entry, by NUMA node; None is a nil map."""
    if device_ids is None:
        return "(checkpoint.DevicesPerNUMA)<nil>"
    return f"(checkpoint.DevicesPerNUMA)map[{lists_text(sorted(device_ids))}]"


def entry_text(pod_uid: str, container: str, resource: str, devices: str, response: bytes | None) -> str:
    """One entry; `response` is the plugin's answer as it is kept, None a nil one."""
    answer = "<nil>" if response is None else f"[{' '.join(map(_DECIMALS.__getitem__, response))}]"
    return (
        f"{{PodUID:(string){pod_uid} ContainerName:(string){container} ResourceName:(string){resource} "
        f"DeviceIDs:{devices} AllocResp:([]uint8){answer}}}"
    )
