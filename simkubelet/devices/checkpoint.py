"""The checkpoint of the device manager: what it holds, how its file is read, and how it is written again and again.

The file is the kubelet's ``kubelet_internal_checkpoint``, one line of JSON. Its checksum is FNV-1a, 32 bits, over the
text that Go's spew prints for its data.

Source: devicemanager/checkpoint/checkpoint.go, checkpointv1.go (kubernetes v1.30.14, v1.34.4);
checkpointmanager/checksum/checksum.go (kubernetes v1.26.15 to v1.37.0).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError

from .._internal.native import FNV_OFFSET, fnv1a, fnv1a_decimals
from ..apis.deviceplugin import ContainerAllocateResponse
from ..apis.integers import parse_int
from ..golang.text import InvalidJsonError, json_list, json_string, read_json, spew_list, spew_lists
from ..model.pod import PodUID
from ..model.resources import ResourceName
from .pod_devices import Allocation, AllocationEntry, DeviceID

__all__ = [
    "CHECKPOINT_NAME",
    "Checkpoint",
    "CheckpointText",
    "CorruptCheckpointError",
    "checksum",
    "decode",
    "hashed_text",
    "read_document",
]

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
    return _hash_of(_hashed_parts(data))


def hashed_text(data: Mapping[str, Any]) -> str:
    """The text that the checksum is of."""
    return "".join(part if isinstance(part, str) else " ".join(map(str, part)) for part in _hashed_parts(data))


def _hashed_parts(data: Mapping[str, Any]) -> list[str | bytes]:
    entries, registered = data.get("PodDeviceEntries"), data.get("RegisteredDevices")
    parts: list[str | bytes] = [_before_registered("<nil>" if entries is None else "[")]
    for place, entry in enumerate(entries or ()):
        parts += [" " if place else "", *_hashed(entry)]
    lists = "<nil>" if registered is None else f"map[{spew_lists(sorted(registered.items()))}]"
    return [*parts, "" if entries is None else "]", _registered_text(lists)]


def _hash_of(parts: Iterable[str | bytes], digest: int = FNV_OFFSET) -> int:
    """The hash of a text in parts, after that of another one; bytes stand for themselves as decimal numbers.

    That text of a large answer of a plugin would take a second.
    """
    for part in parts:
        digest = fnv1a_decimals(part, digest) if isinstance(part, bytes) else fnv1a(part.encode(), digest)
    return digest


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
        document = read_json(text)
    except InvalidJsonError as error:
        raise CorruptCheckpointError(str(error)) from None
    except ValueError:
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


def _hashed(entry: Mapping[str, Any] | None) -> tuple[str | bytes, ...]:
    entry = entry or {}
    held = entry.get("DeviceIDs")
    devices = f"([]string){spew_list(held)}" if isinstance(held, list) else _devices_text(_devices(entry))
    pod_uid, container, resource = (_text(entry, name) for name in ("PodUID", "ContainerName", "ResourceName"))
    return _entry_parts(pod_uid, container, resource, devices, _response(entry))


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
    return None if held is None else [(parse_int(node), ids) for node, ids in held.items()]


def _before_registered(entries: str) -> str:
    """The text up to the registered devices; `entries` is ``<nil>``, or those of `_entry_parts` in brackets."""
    return f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries}"


def _registered_text(lists: str) -> str:
    """The rest of the text; `lists` is ``<nil>`` or a ``map[…]``."""
    return f" RegisteredDevices:(map[string][]string){lists}}}"


def _devices_text(device_ids: Iterable[tuple[int, Sequence[str] | None]] | None) -> str:
    """The devices of an entry, by NUMA node; None is a nil map."""
    if device_ids is None:
        return "(checkpoint.DevicesPerNUMA)<nil>"
    return f"(checkpoint.DevicesPerNUMA)map[{spew_lists(sorted(device_ids))}]"


def _entry_parts(
    pod_uid: str, container: str, resource: str, devices: str, response: bytes | None
) -> tuple[str | bytes, ...]:
    """One entry, see `_hash_of`; `response` is the plugin's answer as it is kept, None a nil one."""
    before = (
        f"{{PodUID:(string){pod_uid} ContainerName:(string){container} ResourceName:(string){resource} "
        f"DeviceIDs:{devices} AllocResp:([]uint8)"
    )
    return (f"{before}<nil>}}",) if response is None else (f"{before}[", response, "]}")


class CheckpointText:
    """Renders one checkpoint after another, each into the bytes of the whole file.

    The file holds every allocation and every healthy device, and it is written after each allocation and each list.
    What an entry or a list of devices contributes is rendered once, and the hash over the entries continues where it
    stopped: an allocation costs its own entry and one pass of the hash over the registered devices.

    The checksum is not over the JSON but over another text; so each piece has both forms.
    """

    def __init__(self) -> None:
        self._entries = _EntriesText()
        self._registered = _RegisteredText()

    def render(self, checkpoint: Checkpoint) -> bytes:
        """The file for a checkpoint; quick where its entries and lists are the very objects of the last one."""
        self._entries.update(checkpoint.entries)
        self._registered.update(checkpoint.registered)
        entries, registered = self._entries, self._registered.whole
        checksum = b"%d" % _hash_of(registered.hashed, entries.hash)
        before, between, after = b'{"Data":{"PodDeviceEntries":', b',"RegisteredDevices":', b'},"Checksum":'
        return b"".join((before, *entries.written, between, registered.written, after, checksum, b"}"))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the checkpoint as it is written to the file, and as it is hashed."""

    written: bytes
    hashed: tuple[str | bytes, ...]


class _EntriesText:
    """The entries' part. It grows at its end; what follows a removed entry is put together again."""

    def __init__(self) -> None:
        self._entries: list[AllocationEntry] = []
        self._pieces: list[_Piece] = []
        self._hash_of_none = fnv1a(_before_registered("<nil>").encode())
        # Before each entry, and after the last one.
        self._hashes = [fnv1a(_before_registered("[").encode())]
        self._written = bytearray()

    @property
    def written(self) -> tuple[bytes | bytearray, ...]:
        """The text in the file, in parts."""
        return (b"[", self._written, b"]") if self._entries else (b"null",)

    @property
    def hash(self) -> int:
        """The hash of everything before the registered devices."""
        return fnv1a(b"]", self._hashes[-1]) if self._entries else self._hash_of_none

    def update(self, entries: Sequence[AllocationEntry]) -> None:
        kept = self._count_of_kept(entries)
        moved = {id(entry): piece for entry, piece in zip(self._entries[kept:], self._pieces[kept:], strict=True)}
        if moved:
            del self._pieces[kept:], self._hashes[kept + 1 :]
            self._written = bytearray(b",".join(piece.written for piece in self._pieces))
        for entry in entries[kept:]:
            self._append(moved.get(id(entry)) or _entry_piece(entry))
        self._entries[kept:] = entries[kept:]

    def _count_of_kept(self, entries: Sequence[AllocationEntry]) -> int:
        # Lists are compared by identity first, which is quick for a thousand entries.
        if list(entries[: len(self._entries)]) == self._entries:
            return len(self._entries)
        pairs = enumerate(zip(self._entries, entries, strict=False))
        return next((place for place, (old, new) in pairs if old is not new), min(len(self._entries), len(entries)))

    def _append(self, piece: _Piece) -> None:
        is_first = not self._pieces
        self._pieces.append(piece)
        self._hashes.append(_hash_of(("" if is_first else " ", *piece.hashed), self._hashes[-1]))
        self._written += piece.written if is_first else b"," + piece.written


class _RegisteredText:
    """The registered devices' part: what a resource contributes stays until its list is another object."""

    def __init__(self) -> None:
        self._lists: Mapping[ResourceName, Sequence[DeviceID]] = {}
        self._pieces: dict[ResourceName, _Piece] = {}
        self.whole = _together([])

    def update(self, registered: Mapping[ResourceName, Sequence[DeviceID]]) -> None:
        changed = [name for name, devices in registered.items() if self._lists.get(name) is not devices]
        if not changed and len(registered) == len(self._lists):
            return
        pieces = {name: piece for name, piece in self._pieces.items() if name in registered}
        pieces |= {name: _resource_piece(name, registered[name]) for name in changed}
        # Go's encoder and spew both sort the keys of a map.
        self.whole = _together([pieces[name] for name in sorted(pieces)])
        self._pieces, self._lists = pieces, dict(registered)


def _together(pieces: Sequence[_Piece]) -> _Piece:
    before, _, after = _registered_text("map[|]").partition("|")
    hashed = tuple(part for piece in pieces for part in (" ", *piece.hashed))[1:]
    return _Piece(b"{" + b",".join(piece.written for piece in pieces) + b"}", (before, *hashed, after))


def _resource_piece(resource: ResourceName, devices: Sequence[DeviceID]) -> _Piece:
    written = f"{json_string(resource)}:{json_list(devices)}"
    return _Piece(written.encode(), (f"{resource}:{spew_list(devices)}",))


def _entry_piece(entry: AllocationEntry) -> _Piece:
    held = entry.allocation.device_ids
    response = bytes(entry.allocation.response.SerializeToString(deterministic=True))
    # Go's encoder sorts the keys of a map as text, whatever their type.
    devices = ",".join(f'"{node}":{json_list(held[node])}' for node in sorted(held, key=str))
    written = (
        f'{{"PodUID":{json_string(entry.pod_uid)},"ContainerName":{json_string(entry.container)},'
        f'"ResourceName":{json_string(entry.resource)},"DeviceIDs":{{{devices}}},'
        f'"AllocResp":"{base64.b64encode(response).decode("ascii")}"}}'
    )
    hashed = _entry_parts(entry.pod_uid, entry.container, entry.resource, _devices_text(held.items()), response)
    return _Piece(written.encode(), hashed)
