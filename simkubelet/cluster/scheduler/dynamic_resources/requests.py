"""What a claim asks for, read once: its requests with their alternatives.

Source: k8s.io/dynamic-resource-allocation v0.34.4, structured/internal/experimental/allocator_experimental.go
(``requestAccessor``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ....model.version import Difference, Version
from ...cel.run import Effort
from ...objects.device_selector import CompileError, SelectorError
from ...objects.node_selection import tolerates
from .pools import KNOWS_CONDITIONS, Device, DeviceID

__all__ = ["AllocatorError", "Request", "claim_name", "devices_of", "requests_of"]

_NAMES_DEVICE: Final = Difference(
    "the error of a selector that cannot be evaluated names the device, and has advice where a key is missing",
    {"1.26": False, "1.37": True},
    "k8s.io/dynamic-resource-allocation v0.36.3, v0.37.0, structured/internal/incubating/allocator_incubating.go, "
    "``selectorsMatch``; cel/errors.go",
)
_EXCLUDING: Final = ("NoSchedule", "NoExecute")
_MISSING_KEY: Final = "no such key:"
_ADVICE: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)


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
        capacity: what it asks for of the capacities of each device.
    """

    def __init__(
        self,
        claim: str,
        spec: Mapping[str, Any],
        parent: str,
        classes: Mapping[str, Mapping[str, Any]],
        release: Version,
    ) -> None:
        self._claim = claim
        self._release = release
        self.name: str = spec["name"]
        self.parent = parent
        self.is_admin = bool(spec.get("adminAccess"))
        self.is_all = (spec.get("allocationMode") or "ExactCount") == "All"
        self.count = int(spec.get("count") or 1)
        self.devices: list[Device] = []
        self._selected: dict[DeviceID, bool] = {}
        self.tolerations: Sequence[Mapping[str, Any]] = spec.get("tolerations") or ()
        self.capacity: Mapping[str, str] = (spec.get("capacity") or {}).get("requests") or {}
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

    def selects(self, device: Device, effort: Effort) -> bool:
        """Whether the selectors of the class and of the request take a device; each is asked once.

        Raises:
            AllocatorError: one of them cannot say.
            ExhaustedError: the search ends before.

        Source: allocator_experimental.go, ``deviceMatchesRequest``.
        """
        known = self._selected.get(device.id)
        if known is None:
            known = self._selected[device.id] = self._ask(device, effort)
        return known

    def _ask(self, device: Device, effort: Effort) -> bool:
        if device.binding_conditions and not KNOWS_CONDITIONS.at(self._release):
            return False
        of_class = (self.device_class.get("spec") or {}).get("selectors") or ()
        name = f"class {self.device_class['metadata']['name']}"
        return self._all_match(of_class, device, name, effort) and self._all_match(
            self._selectors, device, f"claim {self._claim}", effort
        )

    def _all_match(self, selectors: Sequence[Mapping[str, Any]], device: Device, whose: str, effort: Effort) -> bool:
        for number, selector in enumerate(selectors):
            effort.spend()
            try:
                if not device.matches(selector["cel"]["expression"], self._release, effort):
                    return False
            except CompileError as error:
                raise AllocatorError(f"{whose}: selector #{number}: CEL compile error: {error}") from None
            except SelectorError as error:
                text = str(error)
                if names_device := _NAMES_DEVICE.at(self._release):
                    text += _ADVICE if _MISSING_KEY in text else ""
                place = f" on device {device.id}" if names_device else ""
                raise AllocatorError(f"{whose}: selector #{number}{place}: CEL runtime error: {text}") from None
        return True

    def tolerates(self, device: Device) -> bool:
        """Whether it gets a device in spite of its taints.

        Source: k8s.io/dynamic-resource-allocation v0.36.3, resourceclaim/devicetoleration.go; allocator_incubating.go,
        ``taintPreventsAllocation``.
        """
        taints = [taint for taint in device.spec.get("taints") or () if taint.get("effect") in _EXCLUDING]
        return all(any(tolerates(each, taint) for each in self.tolerations) for taint in taints)


def requests_of(
    claim: Mapping[str, Any], classes: Mapping[str, Mapping[str, Any]], release: Version
) -> list[list[Request]]:
    """The alternatives of each request of a claim; one where it has none.

    Raises:
        AllocatorError: a request cannot be understood, or its class is gone.
    """
    name, found = claim_name(claim), []
    for spec in devices_of(claim).get("requests") or ():
        alternatives = spec.get("firstAvailable") or ()
        if alternatives:
            found.append([Request(name, each, spec["name"], classes, release) for each in alternatives])
        else:
            exactly = {**(spec.get("exactly") or {}), "name": spec["name"]}
            found.append([Request(name, exactly, "", classes, release)])
    return found


def devices_of(claim: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a claim asks for, as its spec has it."""
    devices: Mapping[str, Any] = (claim.get("spec") or {}).get("devices") or {}
    return devices
