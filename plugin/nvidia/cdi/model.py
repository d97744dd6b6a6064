"""A CDI specification as it is built up, made simple, and written: field by field as Go's library writes it; pure.

Source: specs-go/config.go and specs-go/version.go (container-device-interface v1.1.0), pkg/nvcdi/transform
(nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

__all__ = ["CdiDevice", "CdiSpec", "DeviceNode", "Edits", "Hook", "Mount"]

_T = TypeVar("_T")

_EARLIEST: Final = "0.3.0"
_WITH_HOST_PATHS: Final = "0.5.0"
_WITH_ANNOTATIONS: Final = "0.6.0"


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node of a container; an empty `host_path` means `path`, zeros are left out when it is written."""

    path: str
    host_path: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int = 0
    permissions: str = ""
    gid: int = 0

    def to_json(self) -> dict[str, Any]:
        fields = {
            "hostPath": self.host_path,
            "major": self.major,
            "minor": self.minor,
            "fileMode": self.file_mode,
            "permissions": self.permissions,
            "gid": self.gid,
        }
        return {"path": self.path} | {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the node that is bound into a container."""

    host_path: str
    container_path: str
    options: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"hostPath": self.host_path, "containerPath": self.container_path, "options": list(self.options)}


@dataclass(frozen=True, slots=True)
class Hook:
    """A program of the node that the container runtime runs when it has created a container."""

    path: str
    args: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "hookName": "createContainer",
            "path": self.path,
            "args": list(self.args),
            "env": ["NVIDIA_CTK_DEBUG=false"],
        }


@dataclass(frozen=True, slots=True)
class Edits:
    """What is changed in a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()

    def __add__(self, other: Edits) -> Edits:
        return Edits(
            self.env + other.env,
            self.device_nodes + other.device_nodes,
            self.hooks + other.hooks,
            self.mounts + other.mounts,
        )

    def __bool__(self) -> bool:
        return any((self.env, self.device_nodes, self.hooks, self.mounts))

    def without(self, other: Edits) -> Edits:
        """Those that `other` does not have."""
        return Edits(
            tuple(env for env in self.env if env not in other.env),
            tuple(node for node in self.device_nodes if node not in other.device_nodes),
            tuple(hook for hook in self.hooks if hook not in other.hooks),
            tuple(mount for mount in self.mounts if mount not in other.mounts),
        )

    def once(self) -> Edits:
        """Each once."""
        return Edits(_once(self.env), _once(self.device_nodes), _once(self.hooks), _once(self.mounts))

    def in_order(self) -> Edits:
        """Device nodes and mounts from the outer folder to the inner, then by path."""
        return replace(
            self,
            device_nodes=tuple(sorted(self.device_nodes, key=lambda node: (node.path.count("/"), node.path))),
            mounts=tuple(
                sorted(self.mounts, key=lambda mount: (mount.container_path.count("/"), mount.container_path))
            ),
        )

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, list[Any]] = {
            "env": list(self.env),
            "deviceNodes": [node.to_json() for node in self.device_nodes],
            "hooks": [hook.to_json() for hook in self.hooks],
            "mounts": [mount.to_json() for mount in self.mounts],
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class CdiDevice:
    """A device by which a container gets `edits`."""

    name: str
    edits: Edits
    annotations: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        annotations = {"annotations": dict(self.annotations)} if self.annotations else {}
        return {"name": self.name, **annotations, "containerEdits": self.edits.to_json()}


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """The specification of one class of devices; `edits` are made with each of them."""

    vendor: str
    device_class: str
    devices: tuple[CdiDevice, ...]
    edits: Edits = field(default_factory=Edits)

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self.vendor}-{self.device_class}.json"

    def simplified(self) -> CdiSpec:
        """Without what is said twice; a device that only repeats the common edits keeps them, as it must have some."""
        common = self.edits.once()
        devices = [replace(device, edits=device.edits.once()) for device in self.devices]
        devices = [replace(device, edits=device.edits.without(common) or device.edits) for device in devices]
        return replace(
            self,
            edits=common.in_order(),
            devices=tuple(
                sorted(
                    (replace(device, edits=device.edits.in_order()) for device in devices),
                    key=lambda device: device.name,
                )
            ),
        )

    def to_text(self) -> str:
        """The file's content."""
        document = {
            "cdiVersion": self._version(),
            "kind": f"{self.vendor}/{self.device_class}",
            "devices": [device.to_json() for device in self.devices],
            "containerEdits": self.edits.to_json(),
        }
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        # As Go's encoding/json has it, so that JSON may be put into HTML.
        for character in "&<>\u2028\u2029":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text

    def _version(self) -> str:
        """The first version of CDI that has all that is used."""
        if any(device.annotations for device in self.devices):
            return _WITH_ANNOTATIONS
        all_edits = (self.edits, *(device.edits for device in self.devices))
        nodes = [node for edits in all_edits for node in edits.device_nodes]
        if any(node.host_path for node in nodes) or any(device.name[:1].isdecimal() for device in self.devices):
            return _WITH_HOST_PATHS
        return _EARLIEST


def _once(parts: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(parts))
