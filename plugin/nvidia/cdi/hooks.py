"""The hooks that finish what mounts alone cannot do, and the links and folders of libraries that they are given.

A library is linked to by its SONAME, which is read from its file.

Source: internal/discover/hooks.go, symlinks.go and ldconfig.go (nvidia-container-toolkit v1.19.0); debug/elf,
``File.DynString`` (Go 1.26), for the format elf(5).
"""

from __future__ import annotations

import mmap
import posixpath
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from simkubelet.apis.cdi import Hook, Mount

from ..discovery.node import join
from .node_files import NodeFiles

__all__ = ["ElfError", "HookMaker", "folders_of_libraries", "is_version_of", "links_to_libraries", "soname"]

_TOOLKIT: Final = "nvidia-ctk"
_ENV: Final = ("NVIDIA_CTK_DEBUG=false",)


@dataclass(frozen=True, slots=True)
class HookMaker:
    """Hooks that run one program of the node: the toolkit, which has them below ``hook``, or their own program."""

    program: str

    def symlinks(self, links: Sequence[str]) -> tuple[Hook, ...]:
        """Make links in the container, each ``TARGET::LINK``; no hook for none."""
        args = [part for link in links for part in ("--link", link)]
        return (self._hook("create-symlinks", args),) if links else ()

    def library_cache(self, folders: Sequence[str]) -> Hook:
        """Let the container's loader know the libraries in `folders`."""
        return self._hook("update-ldcache", [part for folder in folders for part in ("--folder", folder)])

    def forward_compatibility(self, driver_version: str) -> Hook:
        """Let the container use a CUDA library of its own that is newer than the driver's."""
        return self._hook("enable-cuda-compat", [f"--host-driver-version={driver_version}"])

    def keep_device_nodes(self) -> Hook:
        """Keep NVIDIA's programs from making device nodes in the container."""
        return self._hook("disable-device-node-modification", [])

    def _hook(self, name: str, args: Sequence[str]) -> Hook:
        base = posixpath.basename(self.program)
        own = (base, "hook") if base == _TOOLKIT else (base,)
        return Hook("createContainer", self.program, (*own, name, *args), _ENV)


def is_version_of(name: str, library: str) -> bool:
    """Whether a file is a library, such as ``libcuda.so``, with a version of two numbers or more behind it."""
    return fnmatchcase(name, f"{library}.*.*")


def links_to_libraries(libraries: Sequence[Mount], files: NodeFiles) -> list[str]:
    """Each ``TARGET::LINK``: what programs expect, then the links that the node has under a library's own name."""
    links = (link for mount in libraries for link in (*_expected(mount.container_path), *_as_on_node(mount, files)))
    return list(dict.fromkeys(links))


def folders_of_libraries(libraries: Sequence[Mount]) -> list[str]:
    """The folders with libraries among the mounts, each once."""
    paths = (posixpath.split(mount.container_path) for mount in libraries)
    return list(dict.fromkeys(folder for folder, name in paths if _is_library(name)))


def _is_library(name: str) -> bool:
    version = name.rpartition(".so")[2]
    return fnmatchcase(name, "lib?*.so*") and (not version or version.startswith("."))


def _expected(path: str) -> Iterator[str]:
    """Links that programs rely on whatever the node has."""
    folder, name = posixpath.split(path)
    if is_version_of(name, "libcuda.so"):
        yield f"libcuda.so.1::{join(folder, 'libcuda.so')}"
    elif is_version_of(name, "libGLX_nvidia.so"):
        yield f"{name}::{join(folder, 'libGLX_indirect.so.0')}"
    elif is_version_of(name, "libnvidia-opticalflow.so"):
        yield f"libnvidia-opticalflow.so.1::{join(folder, 'libnvidia-opticalflow.so')}"


def _as_on_node(mount: Mount, files: NodeFiles) -> Iterator[str]:
    folder, name = posixpath.split(mount.container_path)
    if not is_version_of(name, "*"):
        return
    place = files.seen(mount.host_path)
    try:
        own_name = soname(place)
    except (ElfError, OSError):
        return
    if own_name and own_name != name and (place.parent / own_name).is_symlink():
        yield f"{name}::{join(folder, own_name)}"
    target = own_name or name
    plain = _without_version(target)
    if plain and plain != target and (place.parent / plain).is_symlink():
        yield f"{target}::{join(folder, plain)}"


def _without_version(name: str) -> str:
    """A library's name up to ``.so``; empty where there is no such part."""
    while "." in name:
        stem, _, extension = name.rpartition(".")
        if extension == "so":
            return name
        name = stem
    return ""


_IDENTITY: Final = b"\x7fELF\x02\x01"
"""64-bit and little-endian, as all drivers are."""
_HEADER: Final = struct.Struct("<16x2xHI8x8xQ4xHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC_ENTRY: Final = struct.Struct("<qQ")
_DYNAMIC_SECTION: Final = 6
_SONAME: Final = 14


class ElfError(Exception):
    """A file is no ELF file, or not a whole one."""


def soname(library: Path) -> str:
    """The library's SONAME; its file's name where it has none.

    Raises:
        ElfError: the file cannot be understood.
        OSError: the file cannot be read.
    """
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            names = _dynamic_strings(data, _SONAME)
    except (struct.error, ValueError) as error:
        raise ElfError(f"{library}: {error}") from error
    if len(names) > 1:
        raise ElfError(f"{library}: {len(names)} SONAMEs")
    return names[0] if names else library.name


def _dynamic_strings(data: mmap.mmap, tag: int) -> list[str]:
    sections = _sections(data)
    for kind, link, place in sections:
        if kind == _DYNAMIC_SECTION:
            strings = data[sections[link][2]] if link < len(sections) else b""
            dynamic = data[place]
            entries = _DYNAMIC_ENTRY.iter_unpack(dynamic[: len(dynamic) // _DYNAMIC_ENTRY.size * _DYNAMIC_ENTRY.size])
            return [strings[value:].partition(b"\0")[0].decode() for found, value in entries if found == tag]
    return []


def _sections(data: mmap.mmap) -> list[tuple[int, int, slice]]:
    """Type, linked section and place in the file of each section."""
    if not data[: _HEADER.size].startswith(_IDENTITY):
        raise ValueError("no 64-bit little-endian ELF file")
    _, _, offset, _, _, _, size, count, _ = _HEADER.unpack_from(data)
    table = [
        _SECTION.unpack_from(data[offset + number * size : offset + number * size + _SECTION.size])
        for number in range(count)
    ]
    return [(kind, link, slice(at, at + length)) for _, kind, _, _, at, length, link, _, _, _ in table]
