"""Pods as the node sees them: what a manifest asks for, and the status that the node reports.

Only what the scheduler and the kubelet act on is read from a manifest; the rest of it is kept untouched.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NewType

from .errors import InputError
from .resources import ResourceName, is_extended_resource, parse_amount, parse_quantity

__all__ = ["Container", "ContainerKind", "Pod", "PodPhase", "PodStatus", "PodUID", "pod_from_manifest"]

PodUID = NewType("PodUID", str)

_NATIVE_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


class PodPhase(StrEnum):
    """Where a pod is in its life."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_terminal(self) -> bool:
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


class ContainerKind(StrEnum):
    """When a container runs."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class Container:
    """One container: `limits` and `requests` map resource names to amounts (see `resources.parse_amount`)."""

    name: str
    kind: ContainerKind
    limits: Mapping[ResourceName, int]
    requests: Mapping[ResourceName, int]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodStatus:
    """What the node reports of a pod."""

    phase: PodPhase = PodPhase.PENDING
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod object; the store replaces it whole at each change."""

    uid: PodUID
    namespace: str
    name: str
    containers: tuple[Container, ...]
    node_name: str | None = None
    is_deleting: bool = False
    status: PodStatus = PodStatus()
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The pod's name, with its namespace before it unless that is ``default``."""
        return self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"

    def requests(self) -> dict[ResourceName, int]:
        """What the scheduler counts: app containers and sidecars added up, or the largest init phase if that is more.

        Source: component-helpers/resource/helpers.go, ``PodRequests`` (v0.34.4).
        """
        running: dict[ResourceName, int] = {}
        init_peak: dict[ResourceName, int] = {}
        sidecars: dict[ResourceName, int] = {}
        for container in self.containers:
            for name, amount in container.requests.items():
                if container.kind is ContainerKind.INIT:
                    init_peak[name] = max(init_peak.get(name, 0), amount + sidecars.get(name, 0))
                    continue
                running[name] = running.get(name, 0) + amount
                if container.kind is ContainerKind.SIDECAR:
                    sidecars[name] = sidecars.get(name, 0) + amount
                    init_peak[name] = max(init_peak.get(name, 0), sidecars[name])
        return {name: max(running.get(name, 0), init_peak.get(name, 0)) for name in running | init_peak}


def pod_from_manifest(manifest: Mapping[str, Any]) -> Pod:
    """Read a v1 Pod manifest as the API server would take it.

    Raises:
        InputError: the API server would refuse it, or a field is not of its type.
    """
    try:
        return _pod(manifest)
    except (AttributeError, TypeError) as error:
        raise InputError(f"the manifest is not of the form of a v1 Pod: {error}") from None


def _pod(manifest: Mapping[str, Any]) -> Pod:
    metadata = manifest.get("metadata") or {}
    spec = manifest.get("spec") or {}
    name = metadata.get("name")
    if not name:
        raise InputError("metadata.name: a pod needs a name")
    if not spec.get("containers"):
        raise InputError(f"pod {name!r}: spec.containers: at least one container is needed")
    init = tuple(_container(name, f"initContainers[{i}]", c) for i, c in enumerate(spec.get("initContainers") or ()))
    app = tuple(_container(name, f"containers[{i}]", c) for i, c in enumerate(spec["containers"]))
    names = [container.name for container in init + app]
    if duplicates := sorted({n for n in names if names.count(n) > 1}):
        raise InputError(f"pod {name!r}: spec: container name {duplicates[0]!r} stands more than once")
    return Pod(
        uid=PodUID(str(uuid.uuid4())),
        namespace=str(metadata.get("namespace") or "default"),
        name=str(name),
        containers=init + app,
        node_name=None if spec.get("nodeName") is None else str(spec["nodeName"]),
        manifest=manifest,
    )


def _container(pod: str, path: str, spec: Mapping[str, Any]) -> Container:
    where = f"pod {pod!r}: spec.{path}"
    if not spec.get("name"):
        raise InputError(f"{where}.name: a container needs a name")
    resources = spec.get("resources") or {}
    limits = _amounts(f"{where}.resources.limits", resources.get("limits") or {})
    requests = _amounts(f"{where}.resources.requests", resources.get("requests") or {})
    for name, request in sorted(requests.items()):
        if is_extended_resource(name) and request != limits.get(name):
            raise InputError(f"{where}.resources: {name}: the request of an extended resource must equal its limit")
        if request > limits.get(name, request):
            raise InputError(f"{where}.resources: {name}: the request must not be above the limit")
    kind = ContainerKind.APP
    if path.startswith("init"):
        kind = ContainerKind.SIDECAR if spec.get("restartPolicy") == "Always" else ContainerKind.INIT
    return Container(
        name=str(spec["name"]),
        kind=kind,
        limits=limits,
        requests=limits | requests,
        env=dict(_variable(f"{where}.env[{i}]", entry) for i, entry in enumerate(spec.get("env") or ())),
    )


def _variable(where: str, entry: Any) -> tuple[str, str]:
    if not isinstance(entry, Mapping) or not entry.get("name"):
        raise InputError(f"{where}.name: a variable needs a name")
    return str(entry["name"]), str(entry.get("value") or "")


def _amounts(where: str, quantities: Mapping[str, Any]) -> dict[ResourceName, int]:
    amounts: dict[ResourceName, int] = {}
    for name, text in quantities.items():
        try:
            quantity = parse_quantity(text)
        except InputError as error:
            raise InputError(f"{where}: {name}: {error}") from None
        if "/" not in name and name not in _NATIVE_RESOURCES and not name.startswith("hugepages-"):
            raise InputError(f"{where}: {name}: no resource of this name; a device's has a domain, as nvidia.com/gpu")
        if quantity < 0:
            raise InputError(f"{where}: {name}: {text!r}: must not be below 0")
        if is_extended_resource(name) and quantity != quantity.to_integral_value():
            raise InputError(f"{where}: {name}: {text!r}: an extended resource is counted in whole devices")
        amounts[ResourceName(name)] = parse_amount(name, text)
    return amounts
