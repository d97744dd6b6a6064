"""What a plugin's pod needs: the part of its manifest that differs from plugin to plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["PodNeeds", "rule"]


class PodNeeds(NamedTuple):
    """What the pod of a plugin needs of its node and of the cluster, as the original's manifest has it.

    Paths are the node's, and the same in the container.

    Attributes:
        folders: Folders of the node; one that is missing is made.
        mounts: Path in the container → folder of the node, of those that lie elsewhere.
        config: The option that names a file, and the file, which a ConfigMap carries.
        env: Variables.
        has_node_name: Whether ``NODE_NAME`` holds the node's name.
        rules: What its service account may do in the cluster; none: it needs no service account.
        is_privileged: Whether it may do everything on the node.
        capabilities: Linux capabilities that it keeps; all others are dropped.
        taint: The key of a taint that it tolerates.
    """

    folders: tuple[str, ...] = ()
    mounts: Mapping[str, str] = MappingProxyType({})
    config: tuple[str, Path] | None = None
    env: Mapping[str, str] = MappingProxyType({})
    has_node_name: bool = False
    rules: tuple[Mapping[str, Any], ...] = ()
    is_privileged: bool = False
    capabilities: tuple[str, ...] = ()
    taint: str = ""


def rule(group: str, resources: list[str], *verbs: str) -> dict[str, Any]:
    """A rule of a ClusterRole."""
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
