"""Looks for files of the node: by name or pattern, in one folder after the other, below a root.

Paths are the node's; where this process sees them is given once. What is not there is logged and left out.

Source: pkg/lookup and internal/ldcache/ldcache.go (nvidia-container-toolkit v1.19.0); the format of the loader's cache:
sysdeps/generic/dl-cache.h (glibc).
"""

from __future__ import annotations

import fnmatch
import glob
import logging
import os
import posixpath
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet.apis.cdi import DeviceNode, Mount

from ..discovery.node import join

__all__ = ["MOUNT_OPTIONS", "CdiError", "NodeFiles", "cached_libraries"]


class CdiError(Exception):
    """A specification cannot be made or written; the message is the original's."""


_log = logging.getLogger(__name__)

MOUNT_OPTIONS: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_LIBRARY_FOLDERS: Final = (
    "/",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu/nvidia/current",
    "/lib/aarch64-linux-gnu/nvidia/current",
)
_PROGRAM_FOLDERS: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The files below one root of the node; `on_host` says where this process sees a path of the node."""

    root: str
    on_host: Callable[[Path], Path]

    def find(
        self, pattern: str, folders: Sequence[str] = ("",), accepts: Callable[[Path], bool] | None = None
    ) -> list[str]:
        """All that a pattern fits, in the order of the folders and then by name; no folders, unless `accepts` says."""
        accepts = accepts or _is_no_folder
        return [
            path
            for folder in dict.fromkeys(folders)
            for path in self._glob(join(self.root, folder, pattern))
            if accepts(self.seen(path))
        ]

    def find_resolved(self, pattern: str, folders: Sequence[str]) -> list[str]:
        """The files that a pattern fits, each once, links followed to their ends."""
        return list(dict.fromkeys(self._resolved(path) for path in self.find(pattern, folders)))

    def find_library(self, pattern: str) -> list[str]:
        """The libraries that a pattern fits, where a driver puts them, else where the loader's cache has them."""
        found = self.find_resolved(pattern, _LIBRARY_FOLDERS)
        if found:
            return found
        cached = cached_libraries(self.seen(join(self.root, "/etc/ld.so.cache")))
        chains = [path for library in cached for path in self._chain(join(self.root, library))]
        fitting = [path for path in chains if fnmatch.fnmatchcase(posixpath.basename(path), pattern)]
        return list(dict.fromkeys(map(self._resolved, fitting)))

    def find_program(self, name: str) -> list[str]:
        """The first program of this name, on this process's path and where programs are."""
        path = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
        folders = [*path, *(folder for folder in _PROGRAM_FOLDERS if folder not in path)]
        if self.root not in ("", "/"):
            # Below the root, and then below the root's root: the original looks in both, too.
            folders = [*(join(self.root, folder) for folder in folders), *folders]
        return self.find(name, folders, _is_program)[:1]

    def nodes(self, patterns: Sequence[str]) -> tuple[DeviceNode, ...]:
        """The character devices that the patterns fit."""
        found = self._located(patterns, lambda pattern: self.find(pattern, ("/", "/dev"), _is_character_device))
        return tuple(self._node(path) for path in found)

    def mounts(
        self, patterns: Sequence[str], locate: Callable[[str], list[str]], options: tuple[str, ...] = MOUNT_OPTIONS
    ) -> tuple[Mount, ...]:
        """What `locate` finds for the patterns, at the same place in the container as below the root."""
        return tuple(Mount(path, self.below_root(path), options) for path in self._located(patterns, locate))

    def below_root(self, path: str) -> str:
        """A path of the node as it is below the root."""
        root = join("/", self.root)
        return path if root == "/" else path.removeprefix(root) or path

    def seen(self, path: str) -> Path:
        """Where this process sees a path of the node."""
        return self.on_host(Path(path))

    def _glob(self, pattern: str) -> Iterator[str]:
        own = str(self.seen("/")).rstrip("/")
        found = sorted(glob.glob(f"{glob.escape(own)}{pattern}", include_hidden=True))  # noqa: PTH207 - a pattern may begin anywhere
        return (path.removeprefix(own) for path in found)

    def _located(self, patterns: Sequence[str], locate: Callable[[str], list[str]]) -> list[str]:
        found: dict[str, None] = {}
        for pattern in patterns:
            paths = locate(pattern)
            if not paths:
                _log.warning("Could not locate %s: pattern %s not found", pattern, pattern)
            for path in paths:
                found.setdefault(path)
        return list(found)

    def _node(self, path: str) -> DeviceNode:
        inside = self.below_root(path)
        host_path = "" if path == inside else path
        status = self.seen(path).lstat()
        return DeviceNode(
            path=inside,
            host_path=host_path,
            major=os.major(status.st_rdev),
            minor=os.minor(status.st_rdev),
            file_mode=stat.S_IMODE(status.st_mode) or None,
            permissions="rwm",
            gid=status.st_gid or None,
        )

    def _resolved(self, path: str) -> str:
        """Where a path leads; one that leads out of the part of the file system that is the node's stays."""
        own = os.path.realpath(self.seen("/")).rstrip("/")
        real = os.path.realpath(self.seen(path))
        return real.removeprefix(own) if real.startswith(f"{own}/") else path

    def _chain(self, path: str) -> Iterator[str]:
        """A path and what it leads to, link by link."""
        seen: set[str] = set()
        while path not in seen and os.path.lexists(self.seen(path)):
            seen.add(path)
            yield path
            place = self.seen(path)
            if place.is_symlink():
                path = join(
                    posixpath.dirname(path) if not place.readlink().is_absolute() else "", str(place.readlink())
                )


def _is_no_folder(place: Path) -> bool:
    return place.exists() and not place.is_dir()


def _is_character_device(place: Path) -> bool:
    return stat.S_ISCHR(place.lstat().st_mode)


def _is_program(place: Path) -> bool:
    return _is_no_folder(place) and bool(place.stat().st_mode & 0o111)


_OLD_MAGIC: Final = b"ld.so-1.7.0"
_OLD_HEADER: Final = struct.Struct("<12sI")
_OLD_ENTRY_BYTES: Final = 12
_NEW_MAGIC: Final = b"glibc-ld.so.cache1.1"
_NEW_HEADER: Final = struct.Struct("<20sII12x8x")
_NEW_ENTRY: Final = struct.Struct("<iIIIQ")
_ELF: Final = 0x0001
_ARCHITECTURE: Final = 0xFF00
_64_BIT: Final = frozenset((0x0300, 0x0500, 0x0A00))


def cached_libraries(place: Path) -> list[str]:
    """The paths of the 64-bit libraries, each once, in the cache's order; none where there is no such cache."""
    try:
        data = place.read_bytes()
    except OSError:
        return []
    if data.startswith(_OLD_MAGIC) and len(data) >= _OLD_HEADER.size:
        _, count = _OLD_HEADER.unpack_from(data)
        end = _OLD_HEADER.size + count * _OLD_ENTRY_BYTES
        data = data[end + -end % 8 :]
    if not data.startswith(_NEW_MAGIC) or len(data) < _NEW_HEADER.size:
        return []
    _, count, _ = _NEW_HEADER.unpack_from(data)
    if _NEW_HEADER.size + count * _NEW_ENTRY.size > len(data):
        return []
    entries = _NEW_ENTRY.iter_unpack(data[_NEW_HEADER.size : _NEW_HEADER.size + count * _NEW_ENTRY.size])
    paths = (
        data[value : data.find(b"\0", value)].decode(errors="surrogateescape")
        for flags, _, value, _, _ in entries
        if flags & _ELF and flags & _ARCHITECTURE in _64_BIT and value < len(data)
    )
    return list(dict.fromkeys(path for path in paths if path))
