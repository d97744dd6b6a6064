"""The checkpoint's text, of which only the parts that changed are rendered again.

The file holds every allocation and every healthy device, and it is written after each allocation and each list. What
an entry or a list of devices contributes is rendered once, and the hash over the entries continues where it stopped: an
allocation costs its own entry and one pass of the hash over the registered devices.

The checksum is not over the JSON but over another text, see `checkpoint`; so each piece has both forms.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..golang.text import json_list, json_string, spew_list
from ..model.resources import ResourceName
from .checkpoint import Checkpoint, before_registered, devices_text, entry_text, fnv1a, registered_text
from .pod_devices import AllocationEntry, DeviceID

__all__ = ["CheckpointText"]


class CheckpointText:
    """Renders one checkpoint after another, each into the bytes of the whole file."""

    def __init__(self) -> None:
        self._entries = _EntriesText()
        self._registered = _RegisteredText()

    def render(self, checkpoint: Checkpoint) -> bytes:
        """The file for a checkpoint; quick where its entries and lists are the very objects of the last one."""
        self._entries.update(checkpoint.entries)
        self._registered.update(checkpoint.registered)
        entries, registered = self._entries, self._registered.whole
        checksum = b"%d" % fnv1a(registered.hashed, entries.hash)
        before, between, after = b'{"Data":{"PodDeviceEntries":', b',"RegisteredDevices":', b'},"Checksum":'
        return b"".join((before, *entries.written, between, registered.written, after, checksum, b"}"))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the checkpoint as it is written to the file, and as it is hashed."""

    written: bytes
    hashed: bytes


class _EntriesText:
    """The entries' part. It grows at its end; what follows a removed entry is put together again."""

    def __init__(self) -> None:
        self._entries: list[AllocationEntry] = []
        self._pieces: list[_Piece] = []
        self._hash_of_none = fnv1a(before_registered("<nil>").encode())
        # Before each entry, and after the last one.
        self._hashes = [fnv1a(before_registered("[").encode())]
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
        self._hashes.append(fnv1a(piece.hashed if is_first else b" " + piece.hashed, self._hashes[-1]))
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
    hashed = b" ".join(piece.hashed for piece in pieces)
    before, _, after = registered_text("map[|]").encode().partition(b"|")
    return _Piece(b"{" + b",".join(piece.written for piece in pieces) + b"}", before + hashed + after)


def _resource_piece(resource: ResourceName, devices: Sequence[DeviceID]) -> _Piece:
    written = f"{json_string(resource)}:{json_list(devices)}"
    return _Piece(written.encode(), f"{resource}:{spew_list(devices)}".encode())


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
    hashed = entry_text(entry.pod_uid, entry.container, entry.resource, devices_text(held.items()), response)
    return _Piece(written.encode(), hashed.encode())
