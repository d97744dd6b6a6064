"""The checkpoint of the device manager: its text, its checksum, its file.

Byte-compatible with the kubelet's ``kubelet_internal_checkpoint``: one line of JSON as Go writes it, and an FNV-1a
checksum over the text that Go's spew gives for the data.

Source: devicemanager/checkpoint/checkpoint.go, checkpointmanager/checksum, util/store/filestore.go (kubernetes
v1.34.4).
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import DecodeError

from .apis.deviceplugin import ContainerAllocateResponse
from .pod import PodUID
from .pod_devices import Allocation, AllocationEntry, DeviceID
from .resources import ResourceName

__all__ = ["CHECKPOINT_NAME", "Checkpoint", "CorruptCheckpointError", "decode", "encode", "read", "write"]

CHECKPOINT_NAME: Final = "kubelet_internal_checkpoint"
_ENTRY_FIELDS: Final = ("PodUID", "ContainerName", "ResourceName", "DeviceIDs", "AllocResp")


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
    """The file cannot be used; the message is the kubelet's. The device manager goes on with empty state."""


def encode(checkpoint: Checkpoint) -> str:
    """The text of the file, checksum included."""
    data = {
        "PodDeviceEntries": [
            {
                "PodUID": entry.pod_uid,
                "ContainerName": entry.container,
                "ResourceName": entry.resource,
                "DeviceIDs": {str(node): list(ids) for node, ids in _by_key_text(entry.allocation.device_ids)},
                "AllocResp": base64.b64encode(_serialized(entry)).decode("ascii"),
            }
            for entry in checkpoint.entries
        ]
        or None,
        "RegisteredDevices": {name: list(ids) for name, ids in sorted(checkpoint.registered.items())},
    }
    return _go_json({"Data": data, "Checksum": checksum(data)})


def decode(text: str) -> Checkpoint:
    """Read the text of a file.

    An entry whose AllocResp is no protobuf message is dropped, as the kubelet drops it.

    Raises:
        CorruptCheckpointError: the checksum does not fit, or the text is not the JSON of a checkpoint.
    """
    document = _json_object(text)
    try:
        return _checked(document)
    except (AttributeError, KeyError, TypeError, ValueError):
        # A part is of another type than the kubelet's; it names the field, and either way goes on with nothing.
        raise CorruptCheckpointError("checkpoint is corrupted") from None


def _checked(document: Mapping[str, Any]) -> Checkpoint:
    data = document.get("Data") or {}
    entries = data.get("PodDeviceEntries")
    if any(isinstance(entry.get("DeviceIDs"), list) for entry in entries or ()):
        raise CorruptCheckpointError(
            "json: cannot unmarshal array into Go struct field PodDevicesEntry.Data.PodDeviceEntries.DeviceIDs "
            "of type checkpoint.DevicesPerNUMA"
        )
    if isinstance(document.get("Checksum"), str):
        raise CorruptCheckpointError(
            "json: cannot unmarshal string into Go struct field Data.Checksum of type checksum.Checksum"
        )
    if document.get("Checksum") != checksum(data):
        raise CorruptCheckpointError("checkpoint is corrupted")
    return Checkpoint(
        entries=tuple(entry for raw in entries or () if (entry := _entry(raw)) is not None),
        registered={
            ResourceName(name): tuple(ids or ()) for name, ids in (data.get("RegisteredDevices") or {}).items()
        },
    )


def checksum(data: Mapping[str, Any]) -> int:
    """FNV-1a, 32 bits, of the text that Go's spew prints for the ``Data`` part of the file."""
    digest = 0x811C9DC5
    for byte in _spew(data).encode():
        digest = ((digest ^ byte) * 0x01000193) & 0xFFFFFFFF
    return digest


def read(directory: Path) -> Checkpoint | None:
    """Read the checkpoint of a plugin folder; None when there is none.

    Raises:
        CorruptCheckpointError: see `decode`.
    """
    try:
        text = (directory / CHECKPOINT_NAME).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    return decode(text)


def write(directory: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of a plugin folder: a crash leaves the old file or the new one.

    Raises:
        OSError: the folder cannot be written.
    """
    text = encode(checkpoint)
    descriptor, scratch = tempfile.mkstemp(prefix=".", dir=directory)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(scratch).rename(directory / CHECKPOINT_NAME)
    except BaseException as error:
        Path(scratch).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = scratch
        raise


def _json_object(text: str) -> dict[str, Any]:
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


def _by_key_text(device_ids: Mapping[int, Sequence[DeviceID]]) -> list[tuple[int, Sequence[DeviceID]]]:
    # Go's encoder sorts the keys of a map as text, whatever their type.
    return sorted(device_ids.items(), key=lambda item: str(item[0]))


def _serialized(entry: AllocationEntry) -> bytes:
    return bytes(entry.allocation.response.SerializeToString(deterministic=True))


def _entry(raw: Mapping[str, Any]) -> AllocationEntry | None:
    try:
        response = ContainerAllocateResponse.FromString(base64.b64decode(raw.get("AllocResp") or ""))
    except DecodeError:
        return None
    device_ids = {int(node): tuple(ids or ()) for node, ids in raw["DeviceIDs"].items()}
    return AllocationEntry(
        PodUID(raw["PodUID"]), raw["ContainerName"], ResourceName(raw["ResourceName"]), Allocation(device_ids, response)
    )


def _go_json(value: Any) -> str:
    """JSON as Go's encoder writes it: no spaces, and what is unsafe in HTML escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _spew(data: Mapping[str, Any]) -> str:
    entries = data.get("PodDeviceEntries")
    registered = data.get("RegisteredDevices")
    return (
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"
        + ("<nil>" if entries is None else "[" + " ".join(_spew_entry(entry) for entry in entries) + "]")
        + " RegisteredDevices:(map[string][]string)"
        + ("<nil>" if registered is None else f"map[{_spew_lists(sorted(registered.items()))}]")
        + "}"
    )


def _spew_entry(entry: Mapping[str, Any]) -> str:
    device_ids = sorted(entry["DeviceIDs"].items(), key=lambda item: int(item[0]))
    response = base64.b64decode(entry.get("AllocResp") or "")
    return (
        f"{{PodUID:(string){entry['PodUID']} ContainerName:(string){entry['ContainerName']} "
        f"ResourceName:(string){entry['ResourceName']} "
        f"DeviceIDs:(checkpoint.DevicesPerNUMA)map[{_spew_lists(device_ids)}] "
        f"AllocResp:([]uint8)[{' '.join(str(byte) for byte in response)}]}}"
    )


def _spew_lists(items: Sequence[tuple[str, Sequence[str] | None]]) -> str:
    return " ".join(f"{key}:{'<nil>' if ids is None else '[' + ' '.join(ids) + ']'}" for key, ids in items)
