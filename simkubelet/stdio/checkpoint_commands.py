"""Commands about the plugin folder: the checkpoint, its checksum, the files."""

from __future__ import annotations

import contextlib
import operator
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..devices.checkpoint import CHECKPOINT_NAME, CorruptCheckpointError, checksum, hashed_text, read_document
from .node import Node
from .request import Fields
from .session import Answer, CommandFailedError, CommandTable

__all__ = ["commands"]

commands: Final = CommandTable[Node]()

_STORED_CHECKSUM: Final = re.compile(r'("Checksum"\s*:\s*)[0-9]+')


@commands.add(needs_manager=False)
async def do_checkpoint(node: Node, fields: Fields) -> Answer:
    """Return the checkpoint as it is in the folder."""
    text = _read(node)
    return {"text": text, "bytes": len(text.encode())}


@commands.add(needs_manager=False)
async def do_checkpoint_entries(node: Node, fields: Fields) -> Answer:
    """What the checkpoint says: who holds which devices, and the healthy devices of each resource."""
    data = _data(_read(node))
    with _of_a_checkpoint():
        entries = [_entry(entry or {}) for entry in data.get("PodDeviceEntries") or ()]
        registered = {name: sorted(ids or ()) for name, ids in (data.get("RegisteredDevices") or {}).items()}
    place = operator.itemgetter("pod", "container", "resource")
    return {"entries": sorted(entries, key=place), "registered": registered}


@commands.add("text", needs_manager=False)
async def do_checksum(node: Node, fields: Fields) -> Answer:
    """The checksum that a checkpoint should have, and the text that it is of; of the file's, or of the given text."""
    text = fields.text("text") if "text" in fields else _read(node)
    data = _data(text)
    stored = _document(text).get("Checksum") or 0
    with _of_a_checkpoint():
        return {"hashed": hashed_text(data), "checksum": checksum(data), "stored": stored}


@commands.add("text", needs_manager=False)
async def do_fix_checksum(node: Node, fields: Fields) -> Answer:
    """Write the file's, or the given, checkpoint with the checksum that it should have; all other bytes stay."""
    text = fields.text("text") if "text" in fields else _read(node)
    data = _data(text)
    with _of_a_checkpoint():
        right = checksum(data)
    fixed, places = _STORED_CHECKSUM.subn(rf"\g<1>{right}", text)
    if not places:
        before, brace, after = text.rpartition("}")
        fixed = f'{before},"Checksum":{right}{brace}{after}'
    (node.folder.directory / CHECKPOINT_NAME).write_text(fixed, encoding="utf-8")
    return {"text": fixed, "checksum": right}


@commands.add("text", needs_manager=False)
async def do_write_checkpoint(node: Node, fields: Fields) -> Answer:
    """Put a text in the checkpoint's place, whatever it is."""
    text = fields.text("text")
    path = node.folder.directory / CHECKPOINT_NAME
    path.write_text(text, encoding="utf-8")
    return {"bytes": len(text.encode())}


@commands.add(needs_manager=False)
async def do_ls(node: Node, fields: Fields) -> Answer:
    """Return the files of the folder, by name."""
    paths = sorted(node.folder.directory.iterdir(), key=lambda path: path.name)
    return {"files": [_file(path) for path in paths]}


@contextlib.contextmanager
def _of_a_checkpoint() -> Iterator[None]:
    """What a part of another type leads to is the command's error."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CommandFailedError(f"the file is not of the form of a checkpoint: {error}") from None


def _entry(raw: Mapping[str, Any]) -> Answer:
    return {
        "pod": raw.get("PodUID") or "",
        "container": raw.get("ContainerName") or "",
        "resource": raw.get("ResourceName") or "",
        "devices": {numa: sorted(ids or ()) for numa, ids in (raw.get("DeviceIDs") or {}).items()},
        **({"alloc_resp": raw["AllocResp"]} if raw.get("AllocResp") else {}),
    }


def _data(text: str) -> Mapping[str, Any]:
    data = _document(text).get("Data", {})
    if not isinstance(data, dict):
        raise CommandFailedError("Data is no object")
    return data


def _document(text: str) -> Mapping[str, Any]:
    try:
        return read_document(text)
    except CorruptCheckpointError as error:
        raise CommandFailedError(str(error)) from None


def _file(path: Path) -> Answer:
    mode = path.lstat().st_mode
    kinds = {stat.S_IFDIR: "dir", stat.S_IFSOCK: "socket", stat.S_IFLNK: "link"}
    return {"name": path.name, "kind": kinds.get(stat.S_IFMT(mode), "file"), "mode": f"{stat.S_IMODE(mode):o}"}


def _read(node: Node) -> str:
    path = node.folder.directory / CHECKPOINT_NAME
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise CommandFailedError(f"open {path}: no such file or directory") from None
