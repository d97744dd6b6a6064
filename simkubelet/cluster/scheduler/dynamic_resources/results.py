"""The ``status.allocation`` of a claim whose devices are chosen.

Source: k8s.io/dynamic-resource-allocation v0.34.4, structured/internal/experimental/allocator_experimental.go,
``Allocate``, ``createNodeSelector``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ....model.version import Difference, Version
from .pools import Device
from .requests import Request

__all__ = ["Chosen", "allocation_result"]

_NAMES_REQUESTS_OF_CLASS: Final = Difference(
    "an allocation has the configuration of a class once, with the requests that have the class; before, once for each "
    "of them and without names, so for all",
    {"1.26": False, "1.34.2": True},
    "k8s.io/dynamic-resource-allocation v0.34.0, v0.34.2, structured/internal/experimental/allocator_experimental.go, "
    "structured/internal/incubating/allocator_incubating.go, ``Allocate``, ``requestName``",
)
_IS_FOR_ALL: Final = Difference(
    "an allocation has each configuration of a claim once, and none that is for all requests names them",
    {"1.26": False, "1.37": True},
    "k8s.io/dynamic-resource-allocation v0.36.3, v0.37.0, structured/internal/incubating/allocator_incubating.go, "
    "``Allocate``",
)
_HAS_TOLERATIONS: Final = Difference(
    "a device of an allocation has the tolerations of its request",
    {"1.26": False, "1.35": True},
    "k8s.io/dynamic-resource-allocation v0.34.4, v0.35.4, structured/internal/incubating/allocator_incubating.go, "
    "``Allocate``",
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A device, and the request that gets it.

    Attributes:
        consumed: what a share takes of the device's capacities; None for a device that is not shared.
        has_counters: whether it took the device's counters, which the first share does.
    """

    request: Request
    device: Device
    consumed: Mapping[str, str] | None = None
    has_counters: bool = True

    def as_json(self, release: Version) -> dict[str, Any]:
        device = self.device.id
        result: dict[str, Any] = {
            "request": self.request.full_name,
            "driver": device.driver,
            "pool": device.pool,
            "device": device.device,
        }
        if self.request.is_admin:
            result["adminAccess"] = True
        if self.request.tolerations and _HAS_TOLERATIONS.at(release):
            result["tolerations"] = list(self.request.tolerations)
        for name in ("bindingConditions", "bindingFailureConditions"):
            if conditions := self.device.spec.get(name):
                result[name] = list(conditions)
        if self.consumed is not None:
            result["shareID"] = str(uuid.uuid4())
            if self.consumed:
                result["consumedCapacity"] = dict(self.consumed)
        return result


def allocation_result(
    claim: Mapping[str, Any], chosen: Sequence[Chosen], node: str, release: Version
) -> dict[str, Any]:
    """The ``status.allocation`` of a claim.

    Args:
        claim: the ResourceClaim.
        chosen: its devices, in the order in which they were chosen; each request has at least one.
        node: where the pod goes.
        release: the scheduler's.
    """
    by_name: dict[str, Request] = {}
    for each in chosen:
        by_name.setdefault(each.request.parent or each.request.name, each.request)
    selected = list(by_name.values())
    devices: dict[str, Any] = {"results": [each.as_json(release) for each in chosen]}
    is_for_all = _IS_FOR_ALL.at(release)
    if config := [*_class_config(selected, release), *_claim_config(claim, selected, once=is_for_all)]:
        devices["config"] = [_without_all(each, selected) for each in config] if is_for_all else config
    result: dict[str, Any] = {"devices": devices}
    if (selector := _node_selector(chosen, node)) is not None:
        result["nodeSelector"] = selector
    return result


def _class_config(selected: Sequence[Request], release: Version) -> Iterator[dict[str, Any]]:
    """The configuration of each class, with the requests that have the class."""
    if not _NAMES_REQUESTS_OF_CLASS.at(release):
        for request in selected:
            for config in (request.device_class.get("spec") or {}).get("config") or ():
                yield {"source": "FromClass", **config}
        return
    by_class: dict[str, list[Request]] = {}
    for request in selected:
        by_class.setdefault(request.device_class["metadata"]["name"], []).append(request)
    for requests in by_class.values():
        for config in (requests[0].device_class.get("spec") or {}).get("config") or ():
            yield {"source": "FromClass", "requests": [each.full_name for each in requests], **config}


def _claim_config(claim: Mapping[str, Any], selected: Sequence[Request], *, once: bool) -> Iterator[dict[str, Any]]:
    """The configuration of the claim: once where it is for all requests, else once for each that it names."""
    for config in claim["spec"]["devices"].get("config") or ():
        requests = config.get("requests") or ()
        found = {"source": "FromClaim", **config}
        if not requests:
            yield found
        named = [request for request in selected if any(name in requests for name in request.names)]
        yield from [found] * (min(len(named), 1) if once else len(named))


def _without_all(config: dict[str, Any], selected: Sequence[Request]) -> dict[str, Any]:
    """A configuration, without the names of requests where these are all."""
    requests = config.get("requests") or ()
    if all(any(name in requests for name in request.names) for request in selected):
        return {name: part for name, part in config.items() if name != "requests"}
    return config


def _node_selector(chosen: Sequence[Chosen], node: str) -> dict[str, Any] | None:
    """The nodes from which all devices can be used; None where these are all."""
    fields: list[Mapping[str, Any]] = []
    expressions: list[Mapping[str, Any]] = []
    for each in chosen:
        device, nodes = each.device, each.device.nodes
        if nodes.name or device.spec.get("bindsToNode"):
            only = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        for term in nodes.terms:
            _add_new(term.get("matchFields") or (), fields)
            _add_new(term.get("matchExpressions") or (), expressions)
    parts = {"matchExpressions": expressions, "matchFields": fields}
    term = {name: part for name, part in parts.items() if part}
    return {"nodeSelectorTerms": [term]} if term else None


def _add_new(requirements: Sequence[Mapping[str, Any]], known: list[Mapping[str, Any]]) -> None:
    for requirement in requirements:
        if not any(_is_same(requirement, other) for other in known):
            known.append(requirement)


def _is_same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    if (left.get("key"), left.get("operator")) != (right.get("key"), right.get("operator")):
        return False
    return set(left.get("values") or ()) == set(right.get("values") or ())
