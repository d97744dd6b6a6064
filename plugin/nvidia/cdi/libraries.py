"""Which links to the driver's libraries a container needs, and which folders its loader must know.

Source: internal/discover/symlinks.go and ldconfig.go (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from ..go_path import join
from .elf import ElfError, soname
from .model import Mount
from .node_files import NodeFiles

__all__ = ["folders_of_libraries", "is_version_of", "links_to_libraries"]


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
