"""Reading a CDI specification: its text, its names, and the rules that a file has to keep to be used.

Field names match in any case and unknown ones are refused, a number may stand for a text, null stands for nothing: as
the Go library reads them, JSON files included, which it takes for YAML.

Source: SPEC.md, pkg/cdi/spec.go, pkg/cdi/container-edits.go, pkg/parser/parser.go, specs-go/version.go
(container-device-interface v1.0.1), also for the texts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, Final

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ..apis.cdi import CdiDevice, CdiSpec, ContainerEdits, json_name
from ..apis.documents import MOST_VALUES, load_json, load_yaml
from ..golang.text import quoted

__all__ = ["CdiNameError", "SpecError", "parse_qualified_name", "parse_spec"]

_VERSIONS: Final = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0")
_HOOKS: Final = frozenset({"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"})
_NODE_TYPES: Final = frozenset({"", "b", "c", "u", "p"})
_IDS: Final = range(2**32)

_SPECS: Final = TypeAdapter(
    # A dataclass takes its configuration from what is around it.
    list[CdiSpec],
    config=ConfigDict(alias_generator=lambda name: json_name(name).lower(), coerce_numbers_to_str=True, extra="forbid"),
)


class SpecError(ValueError):
    """A spec file that cannot be used; the message says why and does not name the file."""


class CdiNameError(ValueError):
    """A vendor, class or device name that CDI does not allow, in the words of its library."""


def parse_spec(text: str) -> CdiSpec:
    """Read the text of a spec file.

    Raises:
        SpecError: it is not a spec, or one that breaks the rules.
    """
    try:
        (spec,) = _SPECS.validate_python([_as_go_reads_it(_document(text))])
    except ValidationError as error:
        first = error.errors()[0]
        _, *path = first["loc"]
        where = ".".join(map(str, path)) or "spec"
        reason = "unknown field" if first["type"] == "unexpected_keyword_argument" else first["msg"]
        raise SpecError(f"failed to unmarshal CDI Spec: {where}: {reason}") from None
    _refuse_wide_ids(spec)
    try:
        _validate(spec)
    except (CdiNameError, SpecError) as error:
        raise SpecError(f"invalid CDI Spec: {error}") from None
    return spec


_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(_Loader):  # type: ignore[misc,valid-type]  # the fastest there is
    """Refuses a mapping with a duplicate key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        _without_duplicates([(self.construct_object(key, deep=True), None) for key, _ in node.value])
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def _document(text: str) -> Any:
    if text.count(",") > MOST_VALUES:
        raise SpecError(f"failed to unmarshal CDI Spec: more than {MOST_VALUES} values")
    try:
        # YAML forbids the tabs that JSON allows, so JSON is tried as what it is.
        document = load_json(text, object_pairs_hook=_without_duplicates)
        json.dumps(document, ensure_ascii=False).encode()
        return document
    except json.JSONDecodeError:
        pass
    except UnicodeEncodeError:
        raise SpecError("failed to unmarshal CDI Spec: found invalid Unicode character escape code") from None
    except SpecError:
        raise
    except ValueError as error:
        raise SpecError(f"failed to unmarshal CDI Spec: {error}") from None
    try:
        document = load_yaml(text, _StrictLoader, most=MOST_VALUES)
    except SpecError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise SpecError(f"failed to unmarshal CDI Spec: {' '.join(str(error).split())}") from None
    if document is None:
        raise SpecError("no Spec data")
    return document


def _as_go_reads_it(value: Any) -> Any:
    """Return a part of a document with its fields in lower case and without those that are null."""
    if isinstance(value, list):
        return [_as_go_reads_it(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    given = {str(name).lower(): part for name, part in value.items() if part is not None}
    return {name: part if name == "annotations" else _as_go_reads_it(part) for name, part in given.items()}


def _without_duplicates(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise SpecError(f"failed to unmarshal CDI Spec: duplicate key {key!r}")
    return mapping


def _refuse_wide_ids(spec: CdiSpec) -> None:
    for edits in spec.all_edits():
        owners = [one for node in edits.device_nodes for one in (node.uid, node.gid) if one is not None]
        for number in (*owners, *edits.additional_gids):
            if number not in _IDS:
                raise SpecError(f"failed to unmarshal CDI Spec: cannot unmarshal number {number} into a uint32")


def _validate(spec: CdiSpec) -> None:
    _validate_version(spec)
    _validate_kind(*_split_kind(spec.kind))
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
    needed = spec.needed_version()
    if _VERSIONS.index(needed) > _VERSIONS.index(version):
        raise SpecError(f"the spec version must be at least v{needed}")


def _validate_device(device: CdiDevice) -> None:
    _validate_device_name(device.name)
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


_LETTER: Final = re.compile(r"[A-Za-z]")
_ALPHANUMERIC: Final = re.compile(r"[A-Za-z0-9]")
_NOT_IN_KIND: Final = re.compile(r"[^A-Za-z0-9_.-]")
_NOT_IN_DEVICE: Final = re.compile(r"[^A-Za-z0-9_.:-]")


def parse_qualified_name(device: str) -> tuple[str, str, str]:
    """Split ``vendor/class=device`` into its three parts.

    Raises:
        CdiNameError: it is not of this form.
    """
    kind, _, name = device.partition("=")
    vendor, class_name = _split_kind(kind)
    if device.startswith("/") or not name or not vendor:
        raise CdiNameError(f"unqualified device {quoted(device)}, missing vendor")
    try:
        _validate_kind(vendor, class_name)
        _validate_device_name(name)
    except CdiNameError as error:
        raise CdiNameError(f"invalid device {quoted(device)}: {error}") from None
    return vendor, class_name, name


def _split_kind(kind: str) -> tuple[str, str]:
    """Vendor and class of ``vendor/class``; the vendor is empty, and the class all of it, in any other form."""
    vendor, _, class_name = kind.partition("/")
    return (vendor, class_name) if vendor and class_name else ("", kind)


def _validate_kind(vendor: str, class_name: str) -> None:
    """Check both parts of a kind.

    Raises:
        CdiNameError: one of them is not allowed.
    """
    for part, name in (("vendor", vendor), ("class", class_name)):
        if not name:
            raise CdiNameError(f"invalid {part}. empty name")
        if not _LETTER.match(name):
            raise CdiNameError(f"invalid {part}. {quoted(name)}, should start with letter")
        if wrong := _NOT_IN_KIND.search(name[1:-1]):
            raise CdiNameError(f"invalid {part}. invalid character '{wrong[0]}' in name {quoted(name)}")
        if not _ALPHANUMERIC.match(name[-1]):
            raise CdiNameError(f"invalid {part}. {quoted(name)}, should end with a letter or digit")


def _validate_device_name(name: str) -> None:
    """Check the name of a device within its kind.

    Raises:
        CdiNameError: it is not allowed.
    """
    if not name:
        raise CdiNameError("invalid (empty) device name")
    if not _ALPHANUMERIC.match(name):
        raise CdiNameError(f"invalid class {quoted(name)}, should start with a letter or digit")
    if wrong := _NOT_IN_DEVICE.search(name[1:-1]):
        raise CdiNameError(f"invalid character '{wrong[0]}' in device name {quoted(name)}")
    if not _ALPHANUMERIC.match(name[-1]):
        raise CdiNameError(f"invalid name {quoted(name)}, should end with a letter or digit")
