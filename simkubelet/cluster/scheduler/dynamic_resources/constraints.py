"""The constraints of a claim: what devices of several requests must have in common, or must not.

Source: k8s.io/dynamic-resource-allocation v0.34.4, structured/internal/experimental/allocator_experimental.go
(``matchAttributeConstraint``), constraint.go (``distinctAttributeConstraint``); v0.36.3, v0.37.0, structured/internal/
incubating/constraint.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ....model.version import Difference, Version
from .pools import Device
from .requests import AllocatorError, Request, claim_name, devices_of

__all__ = ["Constraint", "constraints_of"]

_KNOWS_DISTINCT: Final = Difference(
    "the scheduler knows `distinctAttribute`; 1.35 with its default gates does not, and the try of the pod ends",
    {"1.26": True, "1.35": False, "1.36": True},
    "k8s.io/dynamic-resource-allocation v0.35.4, structured/allocator.go, structured/internal/incubating/"
    "allocator_incubating.go, ``Allocate``",
)
_COMPARES_DISTINCT: Final = Difference(
    "`distinctAttribute` compares values; before, it compares where they are kept, and excludes no device that has the "
    "attribute",
    {"1.26": False, "1.35": True},
    "k8s.io/dynamic-resource-allocation v0.34.4, v0.35.4, structured/internal/experimental/constraint.go",
)
_FORGETS_DISTINCT: Final = Difference(
    "`distinctAttribute` remembers only the last device of each request",
    {"1.26": True, "1.37": False},
    "k8s.io/dynamic-resource-allocation v0.36.3, v0.37.0, structured/internal/incubating/constraint.go",
)
_VALUE_KINDS: Final = ("string", "int", "bool", "version")

_Value: TypeAlias = Mapping[str, Any]


class Constraint(ABC):
    """What is chosen so far of the devices that a constraint concerns."""

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute

    def add(self, request: Request, device: Device) -> bool:
        """Take a device, or refuse it and stay as it was."""
        if not self._concerns(request):
            return True
        value = device.attribute(self._attribute)
        return value is not None and self._take(request, value)

    def remove(self, request: Request) -> None:
        """Give back the device that was taken last."""
        if self._concerns(request):
            self._give_back(request)

    @abstractmethod
    def _take(self, request: Request, value: _Value) -> bool: ...

    @abstractmethod
    def _give_back(self, request: Request) -> None: ...

    def _concerns(self, request: Request) -> bool:
        return not self._requests or any(name in self._requests for name in request.names)


class _Match(Constraint):
    """All devices share one value."""

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._count = 0
        self._value: _Value = {}

    def _take(self, request: Request, value: _Value) -> bool:
        if self._count and not _is_same(value, self._value):
            return False
        if not self._count:
            self._value = value
        self._count += 1
        return True

    def _give_back(self, request: Request) -> None:
        self._count -= 1


class _Distinct(Constraint):
    """No two devices have the same value."""

    def __init__(self, requests: frozenset[str], attribute: str, release: Version) -> None:
        super().__init__(requests, attribute)
        self._compares = _COMPARES_DISTINCT.at(release)
        self._forgets = _FORGETS_DISTINCT.at(release)
        self._count = 0
        self._values: dict[str | int, _Value] = {}

    def _take(self, request: Request, value: _Value) -> bool:
        if self._compares and any(_is_same(value, other) for other in self._values.values()):
            return False
        self._values[self._place(request)] = value
        self._count += 1
        return True

    def _give_back(self, request: Request) -> None:
        self._count -= 1
        self._values.pop(self._place(request), None)

    def _place(self, request: Request) -> str | int:
        return (request.parent or request.name) if self._forgets else self._count


def constraints_of(claim: Mapping[str, Any], release: Version) -> list[Constraint]:
    """The constraints of a claim, in order.

    Raises:
        AllocatorError: one of them is of no known kind.
    """
    found: list[Constraint] = []
    for number, spec in enumerate(devices_of(claim).get("constraints") or ()):
        requests = frozenset(spec.get("requests") or ())
        if attribute := spec.get("matchAttribute"):
            found.append(_Match(requests, attribute))
        elif (attribute := spec.get("distinctAttribute")) and _KNOWS_DISTINCT.at(release):
            found.append(_Distinct(requests, attribute, release))
        else:
            text = f"constraint #{number}: empty constraint (unsupported constraint type?)"
            raise AllocatorError(f"claim {claim_name(claim)}, {text}")
    return found


def _is_same(left: _Value, right: _Value) -> bool:
    kind = next((kind for kind in _VALUE_KINDS if kind in left), None)
    return kind is not None and kind in right and bool(left[kind] == right[kind])
