"""Objects of resource.k8s.io in ``v1beta1``, as what is stored and back; ``v1beta2`` has the form of ``v1``.

``v1beta1`` has what a request asks for in the request itself instead of in ``exactly``, and what a device has in
``basic``.

Source: pkg/apis/resource/v1beta1/conversion.go (kubernetes v1.34.4, v1.37.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ...objects.objects import JSON

__all__ = ["from_v1", "to_v1"]

_Form: TypeAlias = Callable[[JSON], JSON]
_CHOICE: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
    "derivedAttributes",
)  # fmt: skip
"""The fields of ``exactly``."""
_EMPTY: Final = (None, "", 0)


def _exact_request(request: JSON) -> JSON:
    given = {name: request[name] for name in _CHOICE if _is_set(request.get(name))}
    rest = {name: value for name, value in request.items() if name not in _CHOICE}
    return {**rest, "exactly": {"deviceClassName": "", **given}} if given else rest


def _flat_request(request: JSON) -> JSON:
    rest = {name: value for name, value in request.items() if name != "exactly"}
    exactly = request.get("exactly") or {}
    # Go writes the class where there is none, too.
    return {**rest, "deviceClassName": "", **{name: value for name, value in exactly.items() if _is_set(value)}}


def _is_set(value: Any) -> bool:
    return isinstance(value, bool) or value not in _EMPTY


def _plain_device(device: JSON) -> JSON:
    return {"name": device.get("name", ""), **(device.get("basic") or {})}


def _basic_device(device: JSON) -> JSON:
    return {"name": device.get("name", ""), "basic": {name: value for name, value in device.items() if name != "name"}}


def _at(path: tuple[str, ...], change: Callable[[Any], Any]) -> _Form:
    """Return what changes the value at a path of an object that has one; the object itself stays as it is."""
    name, *below = path
    inner = _at(tuple(below), change) if below else change

    def changed(obj: JSON) -> JSON:
        return obj if obj.get(name) is None else {**obj, name: inner(obj[name])}

    return changed


def _each(change: _Form) -> Callable[[list[JSON]], list[JSON]]:
    return lambda items: [change(item) for item in items]


def _slice(change: _Form) -> _Form:
    devices = _at(("devices",), _each(change))

    def changed(spec: JSON) -> JSON:
        # In v1beta1 they are no pointers.
        return {name: value for name, value in devices(spec).items() if value or name not in ("nodeName", "allNodes")}

    return _at(("spec",), changed)


def _as_it_is(obj: JSON) -> JSON:
    return obj


_REQUESTS: Final[Mapping[str, tuple[str, ...]]] = {
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
}


def to_v1(version: str, kind: str) -> _Form:
    """What makes an object of ``v1`` of one of another version."""
    return _conversion(version, kind, _exact_request, _plain_device)


def from_v1(version: str, kind: str) -> _Form:
    """The other way."""
    return _conversion(version, kind, _flat_request, _basic_device)


def _conversion(version: str, kind: str, request: _Form, device: _Form) -> _Form:
    if version != "v1beta1":
        return _as_it_is
    if kind == "ResourceSlice":
        return _slice(device)
    return _at(_REQUESTS[kind], _each(request)) if kind in _REQUESTS else _as_it_is
