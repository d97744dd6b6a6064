"""One CDI spec: its model, its reading, and the rules that a file has to keep to be used.

Field names match in any case and unknown ones are refused, a number may stand for a text, null stands for nothing: as
the Go library reads them, JSON files included, which it takes for YAML.

Source: SPEC.md, pkg/cdi/spec.go, pkg/cdi/container-edits.go, specs-go/version.go (container-device-interface v1.0.1).
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .names import CdiNameError, split_kind, validate_device_name, validate_kind

__all__ = ["CdiSpec", "ContainerEdits", "DeviceNode", "Hook", "IntelRdt", "Mount", "SpecError", "parse_spec"]

_VERSIONS: Final = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0")
_HOOKS: Final = frozenset({"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"})
_NODE_TYPES: Final = frozenset({"", "b", "c", "u", "p"})

_Id = Annotated[int, Field(ge=0, lt=2**32)]


class SpecError(ValueError):
    """A spec file that cannot be used; the message says why and does not name the file."""


class _Part(BaseModel):
    """A JSON object of a spec."""

    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_", ""),
        coerce_numbers_to_str=True,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _as_go_reads_it(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        given = {key: part for key, part in value.items() if part is not None}
        return {key if key in cls.model_fields else str(key).lower(): part for key, part in given.items()}


class DeviceNode(_Part):
    """A device file; `host_path` is `path` where it is empty, an empty `permissions` means all."""

    path: str = ""
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: _Id | None = None
    gid: _Id | None = None

    @property
    def source(self) -> str:
        """The path on the node."""
        return self.host_path or self.path


class Mount(_Part):
    """A file or folder of the node; `options` are mount options, `type` that of a file system."""

    host_path: str = ""
    container_path: str = ""
    options: tuple[str, ...] = ()
    type: str = ""


class Hook(_Part):
    """A program that an OCI runtime runs at a point of a container's life."""

    hook_name: str = ""
    path: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class IntelRdt(_Part):
    """Cache and memory bandwidth settings of Intel processors."""

    clos_id: str = ""
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    enable_cmt: bool = False
    enable_mbm: bool = False


class ContainerEdits(_Part):
    """What is added to a container; `env` entries are ``NAME=value``."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[_Id, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self == ContainerEdits()

    def __add__(self, other: ContainerEdits) -> ContainerEdits:
        """Both, in this order; of two RDT settings the other's.

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


class Device(_Part):
    """A device that can be asked for by name."""

    name: str = ""
    annotations: Mapping[str, str] = Field(default_factory=dict)
    container_edits: ContainerEdits = ContainerEdits()


class CdiSpec(_Part):
    """A spec file: devices of one kind, and the edits that any of them needs."""

    cdi_version: str = ""
    kind: str = ""
    annotations: Mapping[str, str] = Field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    container_edits: ContainerEdits = ContainerEdits()


def parse_spec(text: str) -> CdiSpec:
    """Read the text of a spec file.

    Raises:
        SpecError: it is not a spec, or one that breaks the rules.
    """
    try:
        spec = CdiSpec.model_validate(_document(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "spec"
        raise SpecError(f"failed to unmarshal CDI Spec: {where}: {first['msg']}") from None
    try:
        _validate(spec)
    except (CdiNameError, SpecError) as error:
        raise SpecError(f"invalid CDI Spec: {error}") from None
    return spec


class _StrictLoader(yaml.SafeLoader):
    """Refuses a mapping in which a key stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        _without_duplicates([(self.construct_object(key, deep=True), None) for key, _ in node.value])
        return super().construct_mapping(node, deep)


def _document(text: str) -> Any:
    try:
        # YAML forbids the tabs that JSON allows, so JSON is tried as what it is.
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError:
        pass
    try:
        document = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, TypeError) as error:
        raise SpecError(f"failed to unmarshal CDI Spec: {' '.join(str(error).split())}") from None
    if document is None:
        raise SpecError("no Spec data")
    return document


def _without_duplicates(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        keys = [key for key, _ in pairs]
        raise SpecError(
            f"failed to unmarshal CDI Spec: key {next(k for k in keys if keys.count(k) > 1)!r} stands twice"
        )
    return mapping


def _validate(spec: CdiSpec) -> None:
    _validate_version(spec)
    validate_kind(*split_kind(spec.kind))
    _validate_edits(spec.container_edits)
    names = set()
    for device in spec.devices:
        try:
            _validate_device(device)
        except (CdiNameError, SpecError) as error:
            raise SpecError(f'failed add device "{device.name}": {error}') from None
        if device.name in names:
            raise SpecError(f'invalid spec, multiple device "{device.name}"')
        names.add(device.name)
    if not names:
        raise SpecError("invalid spec, no devices")


def _validate_version(spec: CdiSpec) -> None:
    version = spec.cdi_version.removeprefix("v")
    if version not in _VERSIONS:
        raise SpecError(f'invalid version "{spec.cdi_version}"')
    needed = _needed_version(spec)
    if _VERSIONS.index(needed) > _VERSIONS.index(version):
        raise SpecError(f"the spec version must be at least v{needed}")


def _needed_version(spec: CdiSpec) -> str:
    """The version that brought the newest field in use."""
    edits = [spec.container_edits, *(device.container_edits for device in spec.devices)]
    if any(edit.intel_rdt is not None or edit.additional_gids for edit in edits):
        return "0.7.0"
    if spec.annotations or any(device.annotations for device in spec.devices) or "." in spec.kind.partition("/")[2]:
        return "0.6.0"
    has_digit = any(device.name[:1].isascii() and device.name[:1].isdigit() for device in spec.devices)
    if has_digit or any(node.host_path for edit in edits for node in edit.device_nodes):
        return "0.5.0"
    if any(mount.type for edit in edits for mount in edit.mounts):
        return "0.4.0"
    return "0.3.0"


def _validate_device(device: Device) -> None:
    validate_device_name(device.name)
    if device.container_edits.is_empty:
        raise SpecError("invalid device, empty device edits")
    try:
        _validate_edits(device.container_edits)
    except SpecError as error:
        raise SpecError(f'invalid device "{device.name}": {error}') from None


def _validate_edits(edits: ContainerEdits) -> None:
    _validate_env(edits.env, "invalid container edits")
    for node in edits.device_nodes:
        if not node.path:
            raise SpecError("invalid (empty) device path")
        if node.type not in _NODE_TYPES:
            raise SpecError(f'device "{node.path}": invalid type "{node.type}"')
        if not set(node.permissions) <= set("rwm"):
            raise SpecError(f'device "{node.path}": invalid permissions "{node.permissions}"')
    for hook in edits.hooks:
        if hook.hook_name not in _HOOKS:
            raise SpecError(f'invalid hook name "{hook.hook_name}"')
        if not hook.path:
            raise SpecError(f'invalid hook "{hook.hook_name}" with empty path')
        _validate_env(hook.env, f'invalid hook "{hook.hook_name}"')
    for mount in edits.mounts:
        if not mount.host_path or not mount.container_path:
            raise SpecError(f"invalid mount, empty {'container' if mount.host_path else 'host'} path")
    rdt = edits.intel_rdt
    if rdt and (len(rdt.clos_id) >= 4096 or rdt.clos_id in (".", "..") or set(rdt.clos_id) & set("/\n")):
        raise SpecError("invalid ClosID")


def _validate_env(env: tuple[str, ...], where: str) -> None:
    for variable in env:
        if variable.find("=") <= 0:
            raise SpecError(f'{where}: invalid environment variable "{variable}"')
