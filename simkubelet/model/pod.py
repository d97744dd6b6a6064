"""Pods as the node sees them: what a manifest asks for.

Only what the scheduler and the kubelet act on is read from a manifest; the rest of it is kept untouched.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Any, Final, NewType, cast

from .errors import InputError
from .pod_status import PodStatus
from .resources import ResourceName, is_extended_resource, parse_amount, parse_quantity

__all__ = [
    "CONFIG_HASH_ANNOTATION",
    "MIRROR_ANNOTATION",
    "Container",
    "ContainerKind",
    "ExtendedClaim",
    "Pod",
    "PodUID",
    "RestartPolicy",
    "RestartRule",
    "pod_from_manifest",
]

PodUID = NewType("PodUID", str)

CONFIG_HASH_ANNOTATION: Final = "kubernetes.io/config.hash"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"

_NATIVE_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_DEFAULT_GRACE_S: Final = 30


class ContainerKind(StrEnum):
    """When a container runs."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


class RestartPolicy(StrEnum):
    """Which ends of a container are followed by another start."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"

    def restarts_after(self, exit_code: int) -> bool:
        return self is RestartPolicy.ALWAYS or (self is RestartPolicy.ON_FAILURE and exit_code != 0)


@dataclass(frozen=True, slots=True)
class RestartRule:
    """A container's own rule for some exit codes: it is restarted when the code is (or is not) one of `codes`."""

    is_in: bool
    codes: frozenset[int]

    def restarts_after(self, exit_code: int) -> bool:
        return (exit_code in self.codes) is self.is_in


@dataclass(frozen=True, slots=True)
class Container:
    """One container.

    Attributes:
        limits: resource -> amount (see `resources.parse_amount`).
        requests: the same.
        restart_policy: the container's own, which goes before the pod's in minors that know it.
        restart_rules: go before both.
    """

    name: str
    kind: ContainerKind
    limits: Mapping[ResourceName, int]
    requests: Mapping[ResourceName, int]
    env: Mapping[str, str]
    restart_policy: RestartPolicy | None = None
    restart_rules: tuple[RestartRule, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """The claim that the scheduler made for the extended resources of a pod that DRA drivers serve.

    Attributes:
        name: of the ResourceClaim, in the pod's namespace.
        requests: container, resource and a request of the claim that gives the container devices of the resource.
    """

    name: str
    requests: tuple[tuple[str, ResourceName, str], ...]

    def serves(self, container: str, resource: ResourceName) -> bool:
        """Whether a container gets a resource through it."""
        return any((container, resource) == request[:2] for request in self.requests)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod object; the store replaces it whole at each change.

    Attributes:
        ordinal: its place in the order of creation; 0 for a static pod, which no API server has created.
        restart_policy: of all its containers that have none of their own.
        grace_s: seconds that its containers have to end, unless its deletion says otherwise.
        deletion_grace_s: what its deletion said; None until it is deleted.
        mirror_of: the static pod that this object stands for.
        is_static: it was read from a file of the node.
        init_containers: those and sidecars, in order.
        app_containers: the others, in order.
        manifest: the whole object as the API shows it, or as it was read from the file; never changed in place.
    """

    uid: PodUID
    namespace: str
    name: str
    containers: tuple[Container, ...]
    node_name: str | None = None
    status: PodStatus = field(default_factory=PodStatus)
    ordinal: int = 0
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    grace_s: float = _DEFAULT_GRACE_S
    deletion_grace_s: float | None = None
    mirror_of: PodUID | None = None
    is_static: bool = False
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    init_containers: tuple[Container, ...] = field(init=False, repr=False, compare=False)
    app_containers: tuple[Container, ...] = field(init=False, repr=False, compare=False)
    _places: Mapping[str, tuple[str, int]] = field(init=False, repr=False, compare=False)
    """Container -> its field of the manifest's ``spec`` and its place there."""

    def __post_init__(self) -> None:
        # A pod may have thousands, and each is asked for when it is started.
        init = tuple(container for container in self.containers if container.kind is not ContainerKind.APP)
        apps = tuple(container for container in self.containers if container.kind is ContainerKind.APP)
        places = {each.name: ("initContainers", place) for place, each in enumerate(init)}
        places |= {each.name: ("containers", place) for place, each in enumerate(apps)}
        for name, value in (("init_containers", init), ("app_containers", apps), ("_places", places)):
            object.__setattr__(self, name, value)

    def part_of(self, container: str) -> str:
        """The field of the manifest's ``spec`` that a container of any kind is in."""
        return self._places.get(container, ("initContainers", 0))[0]

    def spec_of(self, container: str) -> Mapping[str, Any]:
        """What the manifest's ``spec`` has of a container of any kind; nothing where it has none of that name."""
        part, place = self._places.get(container, ("containers", 0))
        specs = self.spec.get(part) or ()
        if place < len(specs) and specs[place].get("name") == container:
            return cast("Mapping[str, Any]", specs[place])
        # The kinds of its containers are others than the manifest's.
        found = chain(self.spec.get("initContainers") or (), self.spec.get("containers") or ())
        return next((spec for spec in found if spec.get("name") == container), {})

    @property
    def spec(self) -> Mapping[str, Any]:
        """The manifest's ``spec``, with what an API server filled in where the pod came from one."""
        spec: Mapping[str, Any] = self.manifest.get("spec") or {}
        return spec

    @property
    def extended_claim(self) -> ExtendedClaim | None:
        """The status' ``extendedResourceClaimStatus``."""
        claim = (self.manifest.get("status") or {}).get("extendedResourceClaimStatus")
        if claim is None:
            return None
        requests = (
            (str(one["containerName"]), ResourceName(one["resourceName"]), str(one["requestName"]))
            for one in claim.get("requestMappings") or ()
        )
        return ExtendedClaim(str(claim.get("resourceClaimName", "")), tuple(requests))

    @property
    def is_deleting(self) -> bool:
        """Whether its end was asked for."""
        return self.deletion_grace_s is not None

    @property
    def key(self) -> str:
        """The pod's name, with its namespace before it unless that is ``default``."""
        return self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"

    def with_kinds(self, kinds: Mapping[ContainerKind, ContainerKind]) -> Pod:
        """The pod with containers of other kinds: kind -> what it becomes."""
        containers = tuple(replace(each, kind=kinds.get(each.kind, each.kind)) for each in self.containers)
        return replace(self, containers=containers)

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
    except (AttributeError, TypeError, ValueError) as error:
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
    names = Counter(container.name for container in init + app)
    if duplicates := sorted(name for name, count in names.items() if count > 1):
        raise InputError(f"pod {name!r}: spec: duplicate container name {duplicates[0]!r}")
    mirror_of = (metadata.get("annotations") or {}).get(MIRROR_ANNOTATION)
    return Pod(
        uid=PodUID(str(uuid.uuid4())),
        namespace=str(metadata.get("namespace") or "default"),
        name=str(name),
        containers=init + app,
        node_name=None if spec.get("nodeName") is None else str(spec["nodeName"]),
        restart_policy=_restart_policy(f"pod {name!r}: spec", spec) or RestartPolicy.ALWAYS,
        grace_s=_grace(str(name), spec),
        mirror_of=None if mirror_of is None else PodUID(str(mirror_of)),
        manifest=manifest,
    )


def _grace(pod: str, spec: Mapping[str, Any]) -> float:
    seconds = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S)
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 0:
        raise InputError(f"pod {pod!r}: spec.terminationGracePeriodSeconds: {seconds!r}: whole seconds from 0 up")
    return float(seconds)


def _restart_policy(where: str, spec: Mapping[str, Any]) -> RestartPolicy | None:
    policy = spec.get("restartPolicy")
    try:
        return None if policy is None else RestartPolicy(policy)
    except ValueError:
        known = ", ".join(RestartPolicy)
        raise InputError(f"{where}.restartPolicy: {policy!r}: choose one of {known}") from None


def _restart_rules(where: str, spec: Mapping[str, Any]) -> tuple[RestartRule, ...]:
    rules = []
    for i, rule in enumerate(spec.get("restartPolicyRules") or ()):
        codes = rule.get("exitCodes") or {}
        if rule.get("action") != "Restart" or codes.get("operator") not in ("In", "NotIn"):
            raise InputError(
                f"{where}.restartPolicyRules[{i}]: needs action Restart and exitCodes.operator In or NotIn"
            )
        rules.append(RestartRule(codes["operator"] == "In", frozenset(int(code) for code in codes.get("values") or ())))
    return tuple(rules)


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
        restart_policy=_restart_policy(where, spec),
        restart_rules=_restart_rules(where, spec),
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
