"""The checkpoint of the device manager: what it holds, and how its file is read.

The file is the kubelet's ``kubelet_internal_checkpoint``, one line of JSON; `checkpoint_text` makes it. Its checksum is
FNV-1a, 32 bits, over the text that Go's spew prints for its data.

Source: devicemanager/checkpoint/checkpoint.go, checkpointv1.go (kubernetes v1.30.14, v1.34.4);
checkpointmanager/checksum/checksum.go (kubernetes v1.26.15 to v1.37.0).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError

from .._internal import native
from ..apis.deviceplugin import ContainerAllocateResponse
from ..golang.text import spew_list
from ..model.pod import PodUID
from ..model.resources import ResourceName
from .pod_devices import Allocation, AllocationEntry, DeviceID

__all__ = [
    "CHECKPOINT_NAME",
    "FNV_OFFSET",
    "Checkpoint",
    "CorruptCheckpointError",
    "before_registered",
    "checksum",
    "decode",
    "devices_text",
    "entry_text",
    "fnv1a",
    "hashed_text",
    "lists_text",
    "read_document",
    "registered_text",
]

CHECKPOINT_NAME: Final = "kubelet_internal_checkpoint"
_ENTRY_FIELDS: Final = ("PodUID", "ContainerName", "ResourceName", "DeviceIDs", "AllocResp")
FNV_OFFSET: Final = 0x811C9DC5
_DECIMALS: Final = tuple(map(str, range(256)))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What survives a restart of the kubelet.

    Attributes:
        entries: every allocation.
        registered: resource -> its healthy devices; a resource whose plugin is gone stays, with none.
    """

    entries: tuple[AllocationEntry, ...]
    registered: Mapping[ResourceName, tuple[DeviceID, ...]]


class CorruptCheckpointError(Exception):
    """The file cannot be used; the message is the kubelet's. The device manager continues with empty state."""


def decode(text: str, *, reads_old_format: bool = False) -> Checkpoint:
    """Read the text of a file.

    An entry whose AllocResp is no protobuf message is dropped, as the kubelet drops it.

    Args:
        text: what is in the file.
        reads_old_format: whether a checkpoint of Kubernetes 1.19 or older is taken too: its devices have no NUMA
            nodes, and all count as of node 0.

    Raises:
        CorruptCheckpointError: the checksum does not fit, or the text is not the JSON of a checkpoint.
    """
    document = read_document(text)
    try:
        if reads_old_format and _is_of_old_format(document):
            document = _migrated(document)
        return _checked(document)
    except (AttributeError, KeyError, TypeError, ValueError):
        # A part is of another type than the kubelet's, which names the field; both continue with empty state.
        raise CorruptCheckpointError("checkpoint is corrupted") from None


def checksum(data: Mapping[str, Any]) -> int:
    """The checksum of the ``Data`` part of a file."""
    return fnv1a(hashed_text(data).encode())


def hashed_text(data: Mapping[str, Any]) -> str:
    """The text that the checksum is of."""
    entries, registered = data.get("PodDeviceEntries"), data.get("RegisteredDevices")
    return before_registered(
        "<nil>" if entries is None else spew_list([_hashed(entry) for entry in entries])
    ) + registered_text("<nil>" if registered is None else f"map[{lists_text(sorted(registered.items()))}]")


def _checked(document: Mapping[str, Any]) -> Checkpoint:
    data = document.get("Data") or {}
    entries = data.get("PodDeviceEntries")
    if _is_of_old_format(document):
        raise CorruptCheckpointError(
            "json: cannot unmarshal array into Go struct field PodDevicesEntry.Data.PodDeviceEntries.DeviceIDs "
            "of type checkpoint.DevicesPerNUMA"
        )
    if isinstance(document.get("Checksum"), str):
        raise CorruptCheckpointError(
            "json: cannot unmarshal string into Go struct field Data.Checksum of type checksum.Checksum"
        )
    stored = document.get("Checksum")
    if not isinstance(stored, int) or stored != checksum(data):
        raise CorruptCheckpointError("checkpoint is corrupted")
    return Checkpoint(
        entries=tuple(entry for raw in entries or () if (entry := _entry(raw or {})) is not None),
        registered={
            ResourceName(name): tuple(ids or ()) for name, ids in (data.get("RegisteredDevices") or {}).items()
        },
    )


def read_document(text: str) -> dict[str, Any]:
    """The JSON object of a file, with the kubelet's own names for the fields that it knows.

    Raises:
        CorruptCheckpointError: the text is no JSON.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            found = text[error.pos]
            raise CorruptCheckpointError(f"invalid character {found!r} after top-level value") from None
        if error.msg == "Expecting value" and error.pos < len(text):
            found = text[error.pos]
            raise CorruptCheckpointError(f"invalid character {found!r} looking for beginning of value") from None
        raise CorruptCheckpointError("unexpected end of JSON input") from None
    except (RecursionError, ValueError):
        # Deeper than Python reads, or a number of more digits than it takes.
        raise CorruptCheckpointError("checkpoint is corrupted") from None
    return _with_known_keys(document) if isinstance(document, dict) else {}


def _with_known_keys(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the fields of the kubelet's structs by their own names: Go reads them in any case."""
    document = _renamed(document, ("Data", "Checksum"))
    if isinstance(data := document.get("Data"), dict):
        data = document["Data"] = _renamed(data, ("PodDeviceEntries", "RegisteredDevices"))
        if isinstance(entries := data.get("PodDeviceEntries"), list):
            data["PodDeviceEntries"] = [_renamed(entry, _ENTRY_FIELDS) for entry in entries]
    return document


def _renamed(struct: Any, names: Sequence[str]) -> Any:
    if not isinstance(struct, dict):
        return struct
    known = {name.lower(): name for name in names}
    return {known.get(key.lower(), key): value for key, value in struct.items()}


def _is_of_old_format(document: Mapping[str, Any]) -> bool:
    entries = (document.get("Data") or {}).get("PodDeviceEntries")
    return any(isinstance((entry or {}).get("DeviceIDs"), list) for entry in entries or ())


def _migrated(document: dict[str, Any]) -> dict[str, Any]:
    """A document of the old format as one of today's; as it is when its own checksum does not fit."""
    data = document["Data"]
    if document.get("Checksum") != checksum(data):
        return document
    entries = [{**entry, "DeviceIDs": {"0": entry.get("DeviceIDs")}} for entry in data["PodDeviceEntries"]]
    migrated = {**data, "PodDeviceEntries": entries}
    return {"Data": migrated, "Checksum": checksum(migrated)}


def _entry(raw: Mapping[str, Any]) -> AllocationEntry | None:
    try:
        response = ContainerAllocateResponse.FromString(_response(raw) or b"")
    except DecodeError:
        return None
    held = {node: tuple(map(DeviceID, ids or ())) for node, ids in _devices(raw) or ()}
    resource = ResourceName(_text(raw, "ResourceName"))
    pod_uid, container = PodUID(_text(raw, "PodUID")), _text(raw, "ContainerName")
    return AllocationEntry(pod_uid, container, resource, Allocation(held, response))


def _hashed(entry: Mapping[str, Any] | None) -> str:
    entry = entry or {}
    held = entry.get("DeviceIDs")
    devices = f"([]string){spew_list(held)}" if isinstance(held, list) else devices_text(_devices(entry))
    pod_uid, container, resource = (_text(entry, name) for name in ("PodUID", "ContainerName", "ResourceName"))
    return entry_text(pod_uid, container, resource, devices, _response(entry))


# A field that is left out has the zero value of its type in Go, and so has one that is null.


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str | None):
        raise TypeError(f"{name} is no string")
    return value or ""


def _response(entry: Mapping[str, Any]) -> bytes | None:
    encoded = entry.get("AllocResp")
    return None if encoded is None else base64.b64decode(encoded, validate=True)


def _devices(entry: Mapping[str, Any]) -> list[tuple[int, Sequence[str] | None]] | None:
    held = entry.get("DeviceIDs")
    return None if held is None else [(int(node), ids) for node, ids in held.items()]


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
