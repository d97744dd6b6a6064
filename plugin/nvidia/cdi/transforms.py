"""What is changed in a specification before it is written: repetitions go, and paths become the node's; pure.

Paths as this plugin's container has them become paths of the node: the driver may be seen below a folder that stands
for another of the node, or for its root. Paths inside the GPU's containers stay.

Source: pkg/nvcdi/transform, host-root.go in it for the paths (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from simkubelet.apis.cdi import CdiSpec, ContainerEdits

from ..discovery.node import join

__all__ = ["RootChange", "on_node", "root_changes", "simplified"]

_T = TypeVar("_T")


def simplified(spec: CdiSpec) -> CdiSpec:
    """Return a specification without repetitions, sorted.

    A device that only repeats the common edits keeps them, as it must have some.
    """
    common = _once(spec.container_edits)
    devices = []
    for device in sorted(spec.devices, key=lambda device: device.name):
        all_edits = _once(device.container_edits)
        own = _without(all_edits, common)
        devices.append(replace(device, container_edits=_in_order(all_edits if own.is_empty else own)))
    return replace(spec, container_edits=_in_order(common), devices=tuple(devices))


def _once(edits: ContainerEdits) -> ContainerEdits:
    return replace(
        edits,
        env=_each_once(edits.env),
        device_nodes=_each_once(edits.device_nodes),
        hooks=_each_once(edits.hooks),
        mounts=_each_once(edits.mounts),
    )


def _each_once(parts: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(parts))


def _without(edits: ContainerEdits, other: ContainerEdits) -> ContainerEdits:
    return replace(
        edits,
        env=_missing_in(other.env, edits.env),
        device_nodes=_missing_in(other.device_nodes, edits.device_nodes),
        hooks=_missing_in(other.hooks, edits.hooks),
        mounts=_missing_in(other.mounts, edits.mounts),
    )


def _missing_in(others: Sequence[_T], parts: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(part for part in parts if part not in others)


def _in_order(edits: ContainerEdits) -> ContainerEdits:
    """Device nodes and mounts from the outer folder to the inner, then by path."""
    return replace(
        edits,
        device_nodes=tuple(sorted(edits.device_nodes, key=lambda node: _by_depth(node.path))),
        mounts=tuple(sorted(edits.mounts, key=lambda mount: _by_depth(mount.container_path))),
    )


def _by_depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


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
            container_edits=_changed(spec.container_edits, change),
            devices=tuple(
                replace(device, container_edits=_changed(device.container_edits, change)) for device in spec.devices
            ),
        )
    return spec


def _changed(edits: ContainerEdits, change: RootChange) -> ContainerEdits:
    return replace(
        edits,
        device_nodes=tuple(replace(node, host_path=change(node.host_path or node.path)) for node in edits.device_nodes),
        hooks=tuple(replace(hook, path=change(hook.path)) for hook in edits.hooks),
        mounts=tuple(replace(mount, host_path=change(mount.host_path)) for mount in edits.mounts),
    )


def _dev_folder(root: str) -> str:
    return join(posixpath.normpath(root).removesuffix("/dev"), "/dev")
