"""Resource names and quantities by Kubernetes' rules, and which resources a node has too little of for a pod.

Amounts are whole numbers: millicores for ``cpu``, the quantity's value rounded up for everything else (bytes, pieces).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import Final, NewType

from .errors import InputError
from .short_texts import cached_if_short

__all__ = [
    "DEVICE_CLASS_PREFIX",
    "PODS",
    "InsufficientResource",
    "ResourceName",
    "can_have_claim",
    "canonical_quantity",
    "format_amount",
    "insufficient_resources",
    "is_extended_resource",
    "parse_amount",
    "parse_quantity",
]

ResourceName = NewType("ResourceName", str)

_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_QUANTITY: Final = re.compile(r"([+-]?)([0-9]*)(\.[0-9]*)?(?:([KMGTPE]i|[numkMGTPE]?)|[eE]([+-]?[0-9]{1,18}))")
_NEEDS_DIGITS: Final = ("Pi", "Ei")
_SMALLEST_EXPONENT: Final = -9

_DECIMAL: Final = ("m", "", "k", "M", "G", "T", "P", "E")
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES: Final = frozenset({"memory", "ephemeral-storage"})

_MAX_QUANTITY: Final = 2**63 - 1

_NATIVE_DOMAIN: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."
_MAX_PREFIX_LENGTH: Final = 253
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Begins the name of the resource that each DeviceClass stands for."""
PODS = ResourceName("pods")
_FIRST = ("pods", "cpu", "memory", "ephemeral-storage")


def is_extended_resource(name: str) -> bool:
    """Whether a node may offer and a pod may ask for a resource of this name through a device plugin.

    Source: pkg/apis/core/v1/helper/helpers.go, ``IsExtendedResourceName`` (kubernetes v1.34.4): not native, not
    starting with ``requests.``, and a qualified name once ``requests.`` is put before it.
    """
    prefix, slash, short_name = name.partition("/")
    if not slash or _NATIVE_DOMAIN in name or name.startswith(_QUOTA_PREFIX):
        return False
    quota_prefix = _QUOTA_PREFIX + prefix
    return (
        len(quota_prefix) <= _MAX_PREFIX_LENGTH
        and _SUBDOMAIN.fullmatch(quota_prefix) is not None
        and _NAME.fullmatch(short_name) is not None
    )


def can_have_claim(name: str) -> bool:
    """Whether DRA drivers may serve a resource of this name.

    Source: pkg/scheduler/util/utils.go, ``IsDRAExtendedResourceName`` (kubernetes v1.35.4, v1.37.2).
    """
    return name.startswith(DEVICE_CLASS_PREFIX) or is_extended_resource(name)


def parse_quantity(text: str | int | float) -> Decimal:
    """A Kubernetes quantity (``2``, ``500m``, ``1.5Gi``) as a number.

    Source: resource.Quantity ``ParseQuantity`` (apimachinery v0.34.4).

    Raises:
        InputError: it is not a quantity.
    """
    quantity = _read(str(text))
    if quantity is None:
        raise InputError(f"{text!r} is no Kubernetes quantity; write a number such as 2, 500m or 1.5Gi")
    return quantity


@cached_if_short
def _read(text: str) -> Decimal | None:
    """The number that a quantity stands for; a pod may have thousands of them, most of them the same."""
    match = _QUANTITY.fullmatch(text)
    try:
        quantity = _number(*match.groups()) if match and match[0] else None
    except DecimalException:
        return None
    return None if quantity is None or quantity.copy_abs() > _MAX_QUANTITY else quantity


def _number(sign: str, whole: str, fraction: str | None, suffix: str | None, exponent: str | None) -> Decimal | None:
    """A quantity from its parts; without a digit it is zero, unless Go reads it by the path for large numbers."""
    digits = f"{whole or 0}{fraction or ''}"
    if not whole and fraction in (None, ".") and (suffix in _NEEDS_DIGITS or int(exponent or 0) < _SMALLEST_EXPONENT):
        return None
    if exponent is not None:
        return Decimal(f"{sign}{digits}e{exponent}")
    return Decimal(f"{sign}{digits}") * _SUFFIXES[suffix or ""]


def parse_amount(name: str, text: str | int | float) -> int:
    """The amount of resource `name` that a quantity stands for: millicores for ``cpu``, else rounded up to a whole.

    Source: resource.Quantity ``Value`` and ``MilliValue`` (apimachinery v0.34.4), which round away from zero.

    Raises:
        InputError: it is not a quantity.
    """
    quantity = parse_quantity(text)
    return math.ceil(quantity * 1000 if name == "cpu" else quantity)


def format_amount(name: str, amount: int) -> str:
    """An amount of resource `name` as a kubelet writes it: ``16`` or ``500m`` for ``cpu``, ``32Gi``, ``1k`` devices.

    Source: kubelet/nodestatus/setters.go, ``MachineInfo`` (kubernetes v1.34.4): bytes are binary, the rest decimal.
    """
    if name in _BYTES or name.startswith("hugepages-"):
        return _shortest(amount, 1024, _BINARY)
    return _shortest(amount, 1000, _DECIMAL[1:]) if name != "cpu" else _shortest(amount, 1000, _DECIMAL)


def canonical_quantity(text: str | int | float) -> str:
    """A quantity as the API server writes it back: ``0.5`` as ``500m``, ``1024Mi`` as ``1Gi``, ``1.5Gi`` as ``1536Mi``.

    Source: resource.Quantity ``ParseQuantity`` and ``CanonicalizeBytes`` (apimachinery v0.34.4): no fraction, no digit
    more than needed, the kind of suffix stays; what is almost so, as ``+5`` and ``08``, stays as it is.

    Raises:
        InputError: it is not a quantity.
    """
    parse_quantity(text)
    return _canonical(str(text))


@cached_if_short
def _canonical(text: str) -> str:
    quantity = parse_quantity(text)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise AssertionError("a quantity that was read has its form")
    if _stays(*match.groups()):
        return text
    suffix = match[4] or ""
    if suffix.endswith("i") and quantity == quantity.to_integral_value():
        return _shortest(int(quantity), 1024, _BINARY)
    nanos = math.ceil(quantity * 10**9)
    if match[5] is not None:
        exponent = -9
        while nanos and nanos % 1000 == 0:
            nanos, exponent = nanos // 1000, exponent + 3
        return f"{nanos}e{exponent}" if nanos and exponent else str(nanos)
    return _shortest(nanos, 1000, ("n", "u", *_DECIMAL))


def _stays(sign: str, whole: str, fraction: str | None, suffix: str | None, exponent: str | None) -> bool:
    """Whether Go keeps the text of a quantity that it has read."""
    decimals = (fraction or ".")[1:]
    digits = (whole.lstrip("0") or "0") + decimals
    if suffix and suffix.endswith("i"):
        digits_left = 15 - len(digits) - int((_BINARY.index(suffix)) * 10 * 3 / 10) - 1
        return not decimals and digits_left >= 0 and int(digits) % 8 != 0
    power = int(exponent) if exponent is not None else _SUFFIXES[suffix or ""].adjusted()
    places = power - len(decimals)
    is_small = len(digits) <= 18 and places >= _SMALLEST_EXPONENT
    return is_small and places % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _shortest(amount: int, step: int, suffixes: Sequence[str]) -> str:
    """A whole number with the largest suffix that leaves it whole; 0 has none."""
    place = 0
    while amount and amount % step == 0 and place < len(suffixes) - 1:
        amount, place = amount // step, place + 1
    return f"{amount}{suffixes[place]}" if amount else "0"


@dataclass(frozen=True, slots=True)
class InsufficientResource:
    """A resource of which a node has too little for a pod.

    Attributes:
        used: what the pods on the node ask for.
        capacity: the node's allocatable.
    """

    resource: ResourceName
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        return "Too many pods" if self.resource == PODS else f"Insufficient {self.resource}"

    @property
    def is_unresolvable(self) -> bool:
        """Whether not even an empty node would do, so that preempting pods cannot help."""
        return self.resource != PODS and self.requested > self.capacity


def insufficient_resources(
    requests: Mapping[ResourceName, int], allocatable: Mapping[ResourceName, int], used: Mapping[ResourceName, int]
) -> tuple[InsufficientResource, ...]:
    """Every resource of which too little is left for a pod; a pod without any fits the node.

    The scheduler filters nodes so, and the kubelet asks again at admission. The order is pods, cpu, memory,
    ephemeral-storage, then the others by name.

    Source: scheduler/framework/plugins/noderesources/fit.go, ``fitsRequest`` (kubernetes v1.34.4).
    """
    missing = [
        InsufficientResource(name, amount, used.get(name, 0), allocatable.get(name, 0))
        for name, amount in ((PODS, 1), *requests.items())
        if amount and amount > allocatable.get(name, 0) - used.get(name, 0)
    ]
    return tuple(sorted(missing, key=_order))


def _order(missing: InsufficientResource) -> tuple[int, str]:
    name = missing.resource
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), name
