"""Where the files of a node are here: its paths, and what stands for them in the node's folder.

``root`` in that folder stands for the root file system. What of the kubelet's root directory has sockets lies beside
it, as the path of a socket has to be short. Whatever is done to a file that a story, a manifest, a specification or a
plugin names goes through `node_tree`, which no path leads out of; `node_path` is for programs that are given a path.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

from ._internal.file_tree import (
    MOST_LEFT_LEVELS,
    FileTree,
    Place,
    open_without_links,
    remove_folder,
)
from .apis.pluginregistration import PLUGINS_REGISTRY
from .dra import CHECKPOINT_NAME

__all__ = [
    "DEVICE_PLUGINS",
    "KUBELET_FOLDERS",
    "MOST_LEFT_LEVELS",
    "PLUGINS",
    "PLUGINS_REGISTRY",
    "POD_RESOURCES",
    "FileTree",
    "Place",
    "name_on_node",
    "node_path",
    "node_tree",
    "open_without_links",
    "remove_folder",
    "socket_path",
    "tree_with",
]

DEVICE_PLUGINS: Final = "device-plugins"
POD_RESOURCES: Final = "pod-resources"
PLUGINS: Final = "plugins"
_ROOT: Final = "root"
_KUBELET: Final = PurePosixPath("/var/lib/kubelet")
_MOUNTS: Final = {
    str(_KUBELET / name): name for name in (DEVICE_PLUGINS, PLUGINS, PLUGINS_REGISTRY, POD_RESOURCES, CHECKPOINT_NAME)
}
"""What of the kubelet's root directory is directly in the node's own folder here."""
KUBELET_FOLDERS: Final = frozenset(
    str(_KUBELET / name) for name in ("", PLUGINS, "pods", DEVICE_PLUGINS, PLUGINS_REGISTRY, POD_RESOURCES)
)
"""What every node has once a kubelet ran there, also where nothing stands for it here.

Source: pkg/kubelet/kubelet.go, ``setupDataDirs`` (kubernetes v1.34.4).
"""


def node_tree(directory: Path) -> FileTree:
    """The files of a node by their paths there.

    Args:
        directory: the node's folder, the kubelet's root directory.
    """
    return FileTree(directory, _ROOT, _MOUNTS)


def tree_with(folder: Path, directory: Path) -> tuple[FileTree, str]:
    """The tree that a folder of this host belongs to, and its path there: the node's, or a tree of its own.

    Args:
        folder: absolute.
        directory: see `node_tree`.
    """
    tree = node_tree(directory)
    path = tree.meaning_of(str(folder))
    return (tree, path) if isinstance(path, str) and path != str(folder) else (FileTree(folder), "/")


def node_path(directory: Path, path: str) -> Path:
    """Where a file of a node lies, if no link is in its way.

    Args:
        directory: see `node_tree`.
        path: absolute, on the node.
    """
    pure = PurePosixPath(path)
    for mount, part in _MOUNTS.items():
        if pure.is_relative_to(mount):
            return directory / part / pure.relative_to(mount)
    return directory / _ROOT / path.lstrip("/")


def socket_path(directory: Path, path: str) -> str:
    """Where a socket is on this host that a plugin names: in a view of the node its path is one of the node.

    Args:
        directory: see `node_tree`.
        path: absolute, on the node or below `directory`.
    """
    is_of_node = PurePosixPath(path).is_relative_to(_KUBELET) and not PurePosixPath(path).is_relative_to(directory)
    return str(node_path(directory, path)) if is_of_node else path


def name_on_node(directory: Path, path: Path) -> str:
    """The path on the node of what lies in a kubelet's folder on this host.

    Args:
        directory: see `node_tree`.
        path: below `directory`.
    """
    return str(_KUBELET / path.relative_to(directory))
