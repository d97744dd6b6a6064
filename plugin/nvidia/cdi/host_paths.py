"""Turns paths as this plugin's container has them into paths of the node; pure.

The driver may be seen below a folder of the container that stands for another of the node, or for its root. Paths
inside the GPU's containers stay.

Source: pkg/nvcdi/transform/root/host-root.go (nvidia-container-toolkit v1.19.0), internal/cdi/cdi.go,
``getRootTransformer`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..go_path import join
from .model import CdiSpec, Edits

__all__ = ["RootChange", "on_node", "root_changes"]


@dataclass(frozen=True, slots=True)
class RootChange:
    """What is below `root` here is below `target` on the node."""

    root: str
    target: str

    def __call__(self, path: str) -> str:
        return join(self.target, path.removeprefix(self.root)) if path.startswith(self.root) else path


def root_changes(driver_root: RootChange, dev_root: RootChange) -> tuple[RootChange, ...]:
    """Those that change anything, in the order in which they are made."""
    changes = [driver_root]
    if dev_root.root not in (driver_root.root, ""):
        changes.append(RootChange(_dev_folder(dev_root.root), _dev_folder(dev_root.target)))
    return tuple(change for change in changes if change.root != change.target)


def on_node(spec: CdiSpec, changes: Sequence[RootChange]) -> CdiSpec:
    """The specification with the node's paths."""
    for change in changes:
        spec = replace(
            spec,
            edits=_changed(spec.edits, change),
            devices=tuple(replace(device, edits=_changed(device.edits, change)) for device in spec.devices),
        )
    return spec


def _changed(edits: Edits, change: RootChange) -> Edits:
    return replace(
        edits,
        device_nodes=tuple(replace(node, host_path=change(node.host_path or node.path)) for node in edits.device_nodes),
        hooks=tuple(replace(hook, path=change(hook.path)) for hook in edits.hooks),
        mounts=tuple(replace(mount, host_path=change(mount.host_path)) for mount in edits.mounts),
    )


def _dev_folder(root: str) -> str:
    return join(posixpath.normpath(root).removesuffix("/dev"), "/dev")
