"""The Container Device Interface: what a CDI specification contains, for those who write one and those who read it.

A part has the fields of its JSON object, under Python's names. An empty text, zero, False or an empty tuple stands for
a field that is not there; where a zero differs from that, the default is None. A plugin writes these parts and must
start quickly, so nothing here checks them: `simkubelet.cdi` reads and checks files.

Source: SPEC.md, specs-go/config.go and specs-go/version.go (container-device-interface v1.0.1; what v1.1.0 writes of
these fields is the same).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final

__all__ = ["CdiDevice", "CdiSpec", "ContainerEdits", "DeviceNode", "Hook", "IntelRdt", "Mount", "json_name"]

_ABBREVIATED: Final = {"clos_id": "closID", "enable_cmt": "enableCMT", "enable_mbm": "enableMBM"}


def json_name(name: str) -> str:
    """Return the JSON name of a part's field."""
    first, *words = name.split("_")
    return _ABBREVIATED.get(name) or first + "".join(map(str.capitalize, words))


@dataclass(frozen=True, slots=True)
class _Part:
    """A JSON object of a specification."""

    always_written: ClassVar[frozenset[str]] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """Return the object with its fields in the order of Go's library; one with its default is left out.

        The fields that Go's library writes in any case are those of `always_written`.
        """
        default = type(self)()
        return {
            json_name(part.name): _json(value)
            for part in fields(self)
            if (value := getattr(self, part.name)) != getattr(default, part.name) or part.name in self.always_written
        }


def _json(value: Any) -> Any:
    if isinstance(value, _Part):
        return value.to_json()
    if isinstance(value, tuple):
        return [_json(part) for part in value]
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True)
class DeviceNode(_Part):
    """A device node of a container; an empty `host_path` means `path`, empty `permissions` mean all."""

    always_written = frozenset({"path"})

    path: str = ""
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None

    @property
    def source(self) -> str:
        """The path on the node."""
        return self.host_path or self.path


@dataclass(frozen=True, slots=True)
class Mount(_Part):
    """A file or folder of the node; `options` are mount options, `type` that of a file system."""

    always_written = frozenset({"host_path", "container_path"})

    host_path: str = ""
    container_path: str = ""
    options: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class Hook(_Part):
    """A program of the node that an OCI runtime runs at a point of a container's life; `timeout` is in seconds."""

    always_written = frozenset({"hook_name", "path"})

    hook_name: str = ""
    path: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class IntelRdt(_Part):
    """Cache and memory bandwidth settings of Intel processors."""

    clos_id: str = ""
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    enable_cmt: bool = False
    enable_mbm: bool = False


@dataclass(frozen=True, slots=True)
class ContainerEdits(_Part):
    """What is changed in a container; `env` entries are ``NAME=value``."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        return self == ContainerEdits()

    def __add__(self, other: ContainerEdits) -> ContainerEdits:
        """Return both, in this order; of two RDT settings the other's.

        Source: pkg/cdi/container-edits.go, ``Append`` (v1.0.1).
        """
        return ContainerEdits(
            env=self.env + other.env,
            device_nodes=self.device_nodes + other.device_nodes,
            hooks=self.hooks + other.hooks,
            mounts=self.mounts + other.mounts,
            intel_rdt=other.intel_rdt or self.intel_rdt,
            additional_gids=self.additional_gids + other.additional_gids,
        )


@dataclass(frozen=True, slots=True)
class CdiDevice(_Part):
    """A device that can be requested by name, and the edits that it needs."""

    always_written = frozenset({"name", "container_edits"})

    name: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    container_edits: ContainerEdits = ContainerEdits()


@dataclass(frozen=True, slots=True)
class CdiSpec(_Part):
    """A specification: devices of one kind, ``vendor/class``, and the edits that each of them needs."""

    always_written = frozenset({"cdi_version", "kind", "devices", "container_edits"})

    cdi_version: str = ""
    kind: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[CdiDevice, ...] = ()
    container_edits: ContainerEdits = ContainerEdits()

    def all_edits(self) -> Iterator[ContainerEdits]:
        """The edits of the specification and of each device."""
        yield self.container_edits
        yield from (device.container_edits for device in self.devices)

    def needed_version(self) -> str:
        """Return the first version of CDI that has all that is used."""
        return next((version for version, is_needed in _NEEDED if is_needed(self)), _EARLIEST)


_EARLIEST: Final = "0.3.0"
_NEEDED: Final[tuple[tuple[str, Callable[[CdiSpec], bool]], ...]] = (
    ("0.7.0", lambda spec: any(edits.intel_rdt is not None or edits.additional_gids for edits in spec.all_edits())),
    ("0.6.0", lambda spec: bool(spec.annotations) or any(device.annotations for device in spec.devices)),
    ("0.6.0", lambda spec: "." in spec.kind.partition("/")[2]),
    ("0.5.0", lambda spec: any(node.host_path for edits in spec.all_edits() for node in edits.device_nodes)),
    ("0.5.0", lambda spec: any(device.name[:1].isascii() and device.name[:1].isdigit() for device in spec.devices)),
    ("0.4.0", lambda spec: any(mount.type for edits in spec.all_edits() for mount in edits.mounts)),
)
"""The versions that brought something, the newest first, and whether a specification uses it."""
