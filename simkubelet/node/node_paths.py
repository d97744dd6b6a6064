"""Where the files of a simulated node lie: each at an absolute path there, in the node's folder here."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["DEVICE_PLUGINS", "KUBELET_FOLDERS", "PLUGINS_REGISTRY", "POD_RESOURCES", "node_path"]

DEVICE_PLUGINS: Final = "device-plugins"
PLUGINS_REGISTRY: Final = "plugins_registry"
POD_RESOURCES: Final = "pod-resources"
_KUBELET: Final = PurePosixPath("/var/lib/kubelet")
_SOCKET_FOLDERS: Final = {(DEVICE_PLUGINS,), (PLUGINS_REGISTRY,), (POD_RESOURCES,)}
"""The kubelet's folders that are directly in the node's own folder here."""
KUBELET_FOLDERS: Final = frozenset(
    str(_KUBELET / name) for name in ("", "plugins", "pods", DEVICE_PLUGINS, PLUGINS_REGISTRY, POD_RESOURCES)
)
"""What every node has once a kubelet ran there, also where nothing stands for it here.

Source: pkg/kubelet/kubelet.go, ``setupDataDirs`` (kubernetes v1.34.4).
"""


def node_path(directory: Path, path: str) -> Path:
    """Where a file of a node lies.

    Args:
        directory: the node's folder, the kubelet's root directory; ``root`` in it stands for the root file system.
        path: absolute, on the node.
    """
    below_kubelet = PurePosixPath(path).parts[len(_KUBELET.parts) :]
    if PurePosixPath(path).is_relative_to(_KUBELET) and below_kubelet[:1] in _SOCKET_FOLDERS:
        return directory.joinpath(*below_kubelet)
    return directory / "root" / path.lstrip("/")
