"""Names of CDI devices: ``vendor/class=device``.

Source: pkg/parser/parser.go (tags.cncf.io/container-device-interface v1.0.1), also for the texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = [
    "CdiNameError",
    "devices_in_annotations",
    "parse_qualified_name",
    "split_kind",
    "validate_device_name",
    "validate_kind",
]

_ANNOTATION_PREFIX: Final = "cdi.k8s.io/"
_LETTER: Final = re.compile(r"[A-Za-z]")
_ALPHANUMERIC: Final = re.compile(r"[A-Za-z0-9]")
_NOT_IN_KIND: Final = re.compile(r"[^A-Za-z0-9_.-]")
_NOT_IN_DEVICE: Final = re.compile(r"[^A-Za-z0-9_.:-]")


class CdiNameError(ValueError):
    """A vendor, class or device name that CDI does not allow, in the words of its library."""


def parse_qualified_name(device: str) -> tuple[str, str, str]:
    """Split ``vendor/class=device`` into its three parts.

    Raises:
        CdiNameError: it is not of this form.
    """
    kind, _, name = device.partition("=")
    vendor, class_name = split_kind(kind)
    if device.startswith("/") or not name or not vendor:
        raise CdiNameError(f"unqualified device {_quoted(device)}, missing vendor")
    try:
        validate_kind(vendor, class_name)
        validate_device_name(name)
    except CdiNameError as error:
        raise CdiNameError(f"invalid device {_quoted(device)}: {error}") from None
    return vendor, class_name, name


def split_kind(kind: str) -> tuple[str, str]:
    """Vendor and class of ``vendor/class``; the vendor is empty, and the class all of it, in any other form."""
    vendor, _, class_name = kind.partition("/")
    return (vendor, class_name) if vendor and class_name else ("", kind)


def validate_kind(vendor: str, class_name: str) -> None:
    """Check both parts of a kind.

    Raises:
        CdiNameError: one of them is not allowed.
    """
    for part, name in (("vendor", vendor), ("class", class_name)):
        if not name:
            raise CdiNameError(f"invalid {part}. empty name")
        if not _LETTER.match(name):
            raise CdiNameError(f"invalid {part}. {_quoted(name)}, should start with letter")
        if wrong := _NOT_IN_KIND.search(name[1:-1]):
            raise CdiNameError(f"invalid {part}. invalid character '{wrong[0]}' in name {_quoted(name)}")
        if not _ALPHANUMERIC.match(name[-1]):
            raise CdiNameError(f"invalid {part}. {_quoted(name)}, should end with a letter or digit")


def validate_device_name(name: str) -> None:
    """Check the name of a device within its kind.

    Raises:
        CdiNameError: it is not allowed.
    """
    if not name:
        raise CdiNameError("invalid (empty) device name")
    if not _ALPHANUMERIC.match(name):
        raise CdiNameError(f"invalid class {_quoted(name)}, should start with a letter or digit")
    if wrong := _NOT_IN_DEVICE.search(name[1:-1]):
        raise CdiNameError(f"invalid character '{wrong[0]}' in device name {_quoted(name)}")
    if not _ALPHANUMERIC.match(name[-1]):
        raise CdiNameError(f"invalid name {_quoted(name)}, should end with a letter or digit")


def devices_in_annotations(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The devices that annotations of a container ask for, in the order of the annotations' keys.

    Raises:
        CdiNameError: one is no qualified name.

    Source: pkg/cdi/annotations.go, ``ParseAnnotations`` (v1.0.1), whose order of keys is Go's, that is, any.
    """
    devices = []
    for key, value in sorted(annotations.items()):
        if key.startswith(_ANNOTATION_PREFIX):
            devices.extend(value.split(","))
    for device in devices:
        try:
            parse_qualified_name(device)
        except CdiNameError:
            raise CdiNameError(f"invalid CDI device name {_quoted(device)}") from None
    return tuple(devices)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
