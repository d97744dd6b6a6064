"""What a claim asks for, read once: its requests with their alternatives, and its constraints.

Source: k8s.io/dynamic-resource-allocation v0.34.4, structured/internal/experimental/allocator_experimental.go
(``requestAccessor``, ``matchAttributeConstraint``), constraint.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...objects.device_selector import CompileError, SelectorError
from .pools import Device

__all__ = ["AllocatorError", "Constraint", "Request", "claim_name", "constraints_of", "requests_of"]

_EXCLUDING: Final = ("NoSchedule", "NoExecute")
_VALUE_KINDS: Final = ("string", "int", "bool", "version")


class AllocatorError(Exception):
    """Something is wrong with a claim, a class or a pool; the message is the allocator's and ends the pod's try."""


def claim_name(claim: Mapping[str, Any]) -> str:
    """The name of a claim in messages."""
    metadata = claim["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


class Request:
    """One request, or one alternative of a request.

    Attributes:
        devices: for the mode All, those that it gets; known once `Search` has looked at all pools.
    """

    def __init__(
        self, claim: str, spec: Mapping[str, Any], parent: str, classes: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._claim = claim
        self.name: str = spec["name"]
        self.parent = parent
        self.is_admin = bool(spec.get("adminAccess"))
        self.is_all = (spec.get("allocationMode") or "ExactCount") == "All"
        self.count = int(spec.get("count") or 1)
        self.devices: list[Device] = []
        self.tolerations: Sequence[Mapping[str, Any]] = spec.get("tolerations") or ()
        self._selectors: Sequence[Mapping[str, Any]] = spec.get("selectors") or ()
        name = spec.get("deviceClassName") or ""
        if not name:
            raise self.error("missing device class name (unsupported request type?)")
        if name not in classes:
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            raise self.error(f"could not retrieve device class {name}: {missing}")
        self.device_class = classes[name]
        for number, selector in enumerate(self._selectors):
            if selector.get("cel") is None:
                raise self.error("CEL expression empty (unsupported selector type?)", f", selector #{number}")
        mode = spec.get("allocationMode") or "ExactCount"
        if mode not in ("ExactCount", "All"):
            raise self.error(f"unsupported count mode {mode}")

    @property
    def full_name(self) -> str:
        """Its name in results and constraints: ``request`` or ``request/alternative``."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def names(self) -> tuple[str, ...]:
        """All names by which constraints and configurations mean it."""
        return (self.parent, self.full_name) if self.parent else (self.name,)

    def error(self, text: str, place: str = "") -> AllocatorError:
        return AllocatorError(f"claim {self._claim}, request {self.name}{place}: {text}")

    def selects(self, device: Device) -> bool:
        """Whether the selectors of the class and of the request take a device.

        Raises:
            AllocatorError: one of them cannot say.
        """
        if device.spec.get("bindingConditions"):
            return False
        of_class = (self.device_class.get("spec") or {}).get("selectors") or ()
        name = f"class {self.device_class['metadata']['name']}"
        return _all_match(of_class, device, name) and _all_match(self._selectors, device, f"claim {self._claim}")

    def tolerates(self, device: Device) -> bool:
        """Whether it gets a device in spite of its taints.

        Source: k8s.io/dynamic-resource-allocation v0.36.3, resourceclaim/devicetoleration.go; allocator_incubating.go,
        ``taintPreventsAllocation``.
        """
        taints = [taint for taint in device.spec.get("taints") or () if taint.get("effect") in _EXCLUDING]
        return all(any(_tolerates(each, taint) for each in self.tolerations) for taint in taints)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if any(toleration.get(name) and toleration[name] != taint.get(name) for name in ("effect", "key")):
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (
        operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")
    )


def requests_of(claim: Mapping[str, Any], classes: Mapping[str, Mapping[str, Any]]) -> list[list[Request]]:
    """The alternatives of each request of a claim; one where it has none.

    Raises:
        AllocatorError: a request cannot be understood, or its class is gone.
    """
    name, found = claim_name(claim), []
    for spec in _devices(claim).get("requests") or ():
        alternatives = spec.get("firstAvailable") or ()
        if alternatives:
            found.append([Request(name, each, spec["name"], classes) for each in alternatives])
        else:
            exactly = {**(spec.get("exactly") or {}), "name": spec["name"]}
            found.append([Request(name, exactly, "", classes)])
    return found


class Constraint:
    """Devices of some requests have to share the value of an attribute.

    With ``distinctAttribute`` they only have to have it: 1.34 compares where the values are kept, never the values.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._requests = frozenset(spec.get("requests") or ())
        self._shared: str | None = spec.get("matchAttribute")
        self._attribute: str = self._shared or spec["distinctAttribute"]
        self._count = 0
        self._value: Mapping[str, Any] = {}

    def add(self, request: Request, device: Device) -> bool:
        """Take a device, or refuse it and stay as it was."""
        if not self._concerns(request):
            return True
        value = device.attribute(self._attribute)
        if value is None:
            return False
        if self._count and self._shared and not _is_same(value, self._value):
            return False
        if not self._count:
            self._value = value
        self._count += 1
        return True

    def remove(self, request: Request) -> None:
        """Give back the device that was taken last."""
        if self._concerns(request):
            self._count -= 1

    def _concerns(self, request: Request) -> bool:
        return not self._requests or any(name in self._requests for name in request.names)


def constraints_of(claim: Mapping[str, Any]) -> list[Constraint]:
    """The constraints of a claim, in order.

    Raises:
        AllocatorError: one of them is of no known kind.
    """
    found = []
    for number, spec in enumerate(_devices(claim).get("constraints") or ()):
        if not spec.get("matchAttribute") and not spec.get("distinctAttribute"):
            text = f"constraint #{number}: empty constraint (unsupported constraint type?)"
            raise AllocatorError(f"claim {claim_name(claim)}, {text}")
        found.append(Constraint(spec))
    return found


def _all_match(selectors: Sequence[Mapping[str, Any]], device: Device, whose: str) -> bool:
    for number, selector in enumerate(selectors):
        try:
            if not device.matches(selector["cel"]["expression"]):
                return False
        except SelectorError as error:
            when = "compile" if isinstance(error, CompileError) else "runtime"
            raise AllocatorError(f"{whose}: selector #{number}: CEL {when} error: {error}") from None
    return True


def _is_same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    kind = next((kind for kind in _VALUE_KINDS if kind in left), None)
    return kind is not None and kind in right and bool(left[kind] == right[kind])


def _devices(claim: Mapping[str, Any]) -> Mapping[str, Any]:
    devices: Mapping[str, Any] = (claim.get("spec") or {}).get("devices") or {}
    return devices
