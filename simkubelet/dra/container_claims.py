"""What the claims of a pod come to for its containers: CDI devices, PodResources, the health in their status.

Source: pkg/kubelet/cm/dra/manager.go, ``GetResources``, ``GetContainerClaimInfos``,
``UpdateAllocatedResourcesStatus`` (kubernetes v1.34.4, v1.35.4, v1.36.3); kubelet/cm/container_manager_linux.go,
``GetDynamicResources``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ..model.errors import KubeletPanicError
from ..model.pod import ExtendedClaim, Pod
from ..model.pod_status import ResourceHealth, ResourceStatus
from ..model.resources import ResourceName
from ..model.version import Difference, Version
from .claim_cache import ClaimInfoCache
from .claim_info import ClaimInfo, PreparedDevice
from .error_texts import error_texts, not_prepared
from .health import FOLLOWS_HEALTH, DriverHealth
from .pod_claims import DynamicResourcesError, claims_of_container, pod_claims, pod_entries

__all__ = ["ContainerClaims", "DynamicDevice", "claimed_cdi_devices"]

_REPORTS_HEALTH_BY_ENTRY: Final = Difference(
    "the status of a container has the health of the claims of its entries; before, only of claims whose entry in the "
    "pod has the claim's own name",
    {"1.26": False, "1.35": True},
    "pkg/kubelet/cm/dra/manager.go, ``UpdateAllocatedResourcesStatus`` (kubernetes v1.34.4, v1.35.4)",
)
_REPORTS_NAMED_CLAIMS: Final = Difference(
    "an entry's health is reported also where the pod names the claim itself, and is that of its request's devices, "
    "each id once; in 1.35 only of claims from templates, and of all their devices",
    {"1.26": False, "1.36": True},
    "pkg/kubelet/cm/dra/manager.go, ``UpdateAllocatedResourcesStatus`` (kubernetes v1.35.4, v1.36.3)",
)

_LISTS_NEEDLESS_ENTRIES: Final = Difference(
    "PodResources passes over entries of a pod that need no claim; before, the kubelet panics at one that a container "
    "names",
    {"1.26": False, "1.34": True},
    "pkg/kubelet/cm/dra/manager.go, ``GetContainerClaimInfos`` (kubernetes v1.33.13, v1.34.4)",
)

_READS_NAMED_ENTRIES: Final = Difference(
    "a container is created though an entry of its pod that it does not name has no claim yet, or the claim of another "
    "container's extended resources is not prepared; an entry without one is reported before a claim that is not",
    {"1.26": False, "1.36": True},
    "pkg/kubelet/cm/dra/manager.go, ``GetResources`` (kubernetes v1.35.4, v1.36.3)",
)

_UNKNOWN_CLAIM: Final = "unable to get claim info for claim {claim} in namespace {namespace}"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DynamicDevice:
    """A device of a claim as PodResources lists it.

    Attributes:
        cdi_ids: those of the devices of its driver that come before it in the claim, and its own.
    """

    driver: str
    pool: str
    name: str
    cdi_ids: Sequence[str]


class ContainerClaims:
    """Reads the claims of one kubelet for containers; changes nothing."""

    def __init__(
        self, cache: ClaimInfoCache, health: DriverHealth, version: Version, *, serves_extended: bool = False
    ) -> None:
        self._serves_extended = serves_extended
        self._cache = cache
        self._health = health
        self._version = version
        self._texts = error_texts(version)

    def cdi_devices(self, pod: Pod, container: str) -> list[str]:
        """The CDI devices of a container, which come before those of device plugins.

        Raises:
            DynamicResourcesError: a claim is not in the cache; the container cannot be created.
        """
        missing = partial(not_prepared, self._version)
        only = _READS_NAMED_ENTRIES.at(self._version)
        used = _used(self._cache, pod, container, missing, self._texts.container_name, reads_named_only=only)
        ids = [cdi_id for info, request in used for cdi_id in info.cdi_ids(request)]
        return ids + self._extended_cdi_devices(pod, container)

    def _extended_cdi_devices(self, pod: Pod, container: str) -> list[str]:
        """Those of the resources that a container gets through the pod's own claim."""
        claim = pod.extended_claim if self._serves_extended else None
        if claim is None:
            return []
        requests, info = _extended_requests(claim, pod, container), self._cache.find(pod.namespace, claim.name)
        if info is not None:
            return [cdi_id for request in requests for cdi_id in info.cdi_ids(request)]
        if not _READS_NAMED_ENTRIES.at(self._version):
            raise DynamicResourcesError(_UNKNOWN_CLAIM.format(claim=claim.name, namespace=pod.namespace))
        if requests:
            raise DynamicResourcesError(not_prepared(self._version, pod.namespace, claim.name))
        return []

    def infos(self, pod: Pod, container: str) -> list[ClaimInfo]:
        """The claims of a container, one for each of its requests.

        Raises:
            DynamicResourcesError: a claim is not in the cache.
            KubeletPanicError: the kubelet of this minor would end here.
        """
        texts = self._texts

        def missing(namespace: str, claim: str) -> str:
            return texts.unlisted.format(namespace=namespace, claim=claim)

        panics = not _LISTS_NEEDLESS_ENTRIES.at(self._version)
        used = _used(self._cache, pod, container, missing, texts.listed_name, panics_without_claim=panics)
        infos = [info for info, _ in used]
        claim = pod.extended_claim if self._serves_extended else None
        if claim is not None and any(container == of for of, _, _ in claim.requests):
            info = self._cache.find(pod.namespace, claim.name)
            if info is None:
                raise DynamicResourcesError(_UNKNOWN_CLAIM.format(claim=claim.name, namespace=pod.namespace))
            infos.append(info)
        return infos

    def dynamic_resources(self, pod: Pod, container: str) -> list[tuple[ClaimInfo, list[DynamicDevice]]]:
        """What PodResources has of a container's claims: all devices of each, whatever the container requests of it."""
        try:
            return [(info, list(_listed(info))) for info in self.infos(pod, container)]
        except DynamicResourcesError as error:
            _log.error("Unable to get container claim info state: %s", error)
            return []

    def health_status(self, pod: Pod) -> Mapping[str, Sequence[ResourceStatus]]:
        """The health of the devices of a pod's app containers: container -> its claims that have devices."""
        if not FOLLOWS_HEALTH.at(self._version):
            return {}
        apps = [container.name for container in pod.app_containers]
        statuses = {name: self._statuses(pod, name) for name in apps}
        return {
            container: [ResourceStatus(ResourceName(name), healths) for name, healths in found.items() if healths]
            for container, found in statuses.items()
            if any(found.values())
        }

    def _statuses(self, pod: Pod, container: str) -> Mapping[str, Sequence[ResourceHealth]]:
        if _REPORTS_HEALTH_BY_ENTRY.at(self._version):
            return self._statuses_by_entry(pod, container)
        return self._statuses_by_claim(pod, container)

    def _statuses_by_claim(self, pod: Pod, container: str) -> Mapping[str, Sequence[ResourceHealth]]:
        try:
            infos = self.infos(pod, container)
        except DynamicResourcesError as error:
            _log.error("Failed to get claim infos for container: %s", error)
            return {}
        # Of several requests for one claim the first gives the name.
        names = {one["name"]: _status_name(one) for one in reversed(claims_of_container(pod, container))}
        return {
            names[info.name]: [self._reported(*device) for device in info.devices()]
            for info in infos
            if info.name in names
        }

    def _statuses_by_entry(self, pod: Pod, container: str) -> Mapping[str, Sequence[ResourceHealth]]:
        finds_all = _REPORTS_NAMED_CLAIMS.at(self._version)
        claims = _claims_by_entry(pod, finds_all=finds_all)
        statuses: dict[str, list[ResourceHealth]] = {}
        for one in claims_of_container(pod, container):
            info = self._cache.find(pod.namespace, claims.get(one["name"], ""))
            if info is None:
                continue
            request = one.get("request") or ""
            devices = [
                (driver, device)
                for driver, device in info.devices()
                if not finds_all or not request or not device.requests or request.partition("/")[0] in device.requests
            ]
            healths = [self._reported(driver, device) for driver, device in devices]
            statuses[_status_name(one)] = _first_of_each(healths) if finds_all else healths
        return statuses

    def _reported(self, driver: str, device: PreparedDevice) -> ResourceHealth:
        resource_id = device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.name}"
        return ResourceHealth(resource_id, self._health.of_device(driver, (device.pool, device.name)))


def claimed_cdi_devices(pod: Pod, container: str, claims: Iterable[ClaimInfo]) -> list[str]:
    """The CDI devices of a container by what a kubelet's checkpoint has of claims; none while one of its is missing."""
    cache = ClaimInfoCache(claims)
    try:
        used = list(_used(cache, pod, container, lambda namespace, claim: claim))
    except DynamicResourcesError:
        return []
    if (extended := pod.extended_claim) and (own := cache.find(pod.namespace, extended.name)):
        used += [(own, request) for request in _extended_requests(extended, pod, container)]
    return [cdi_id for info, request in used for cdi_id in info.cdi_ids(request)]


def _extended_requests(claim: ExtendedClaim, pod: Pod, container: str) -> Sequence[str]:
    """The requests of the claim of a pod's extended resources that give devices to a container."""
    wanted = {name for one in pod.containers if one.name == container for name, size in one.requests.items() if size}
    return [request for of, resource, request in claim.requests if of == container and resource in wanted]


def _used(
    cache: ClaimInfoCache,
    pod: Pod,
    container: str,
    missing: Callable[[str, str], str],
    error_text: str = "{error}",
    *,
    panics_without_claim: bool = False,
    reads_named_only: bool = False,
) -> Iterator[tuple[ClaimInfo, str]]:
    """The claims of a container with the request that it makes of each, which may be empty."""
    requested = claims_of_container(pod, container)
    only = {str(claim.get("name", "")) for claim in requested} if reads_named_only else None
    entries = pod_entries(pod, error_text, only)
    for entry, one in list(entries) if reads_named_only else entries:
        for claim in requested:
            if claim.get("name") != entry:
                continue
            if one is None:
                if panics_without_claim:
                    raise KubeletPanicError("runtime error: invalid memory address or nil pointer dereference")
                continue
            info = cache.find(pod.namespace, one.claim)
            if info is None:
                raise DynamicResourcesError(missing(pod.namespace, one.claim))
            yield info, claim.get("request") or ""


def _listed(info: ClaimInfo) -> Iterator[DynamicDevice]:
    cdi_ids: dict[str, tuple[str, ...]] = {}
    for driver, device in info.devices():
        cdi_ids[driver] = (*cdi_ids.get(driver, ()), *(device.cdi_ids or ()))
        yield DynamicDevice(driver, device.pool, device.name, cdi_ids[driver])


def _first_of_each(healths: Iterable[ResourceHealth]) -> list[ResourceHealth]:
    by_id: dict[str, ResourceHealth] = {}
    for one in healths:
        by_id.setdefault(one.resource_id, one)
    return list(by_id.values())


def _status_name(claim: Mapping[str, Any]) -> str:
    request = claim.get("request") or ""
    return f"claim:{claim['name']}/{request}" if request else f"claim:{claim['name']}"


def _claims_by_entry(pod: Pod, *, finds_all: bool) -> Mapping[str, str]:
    """Entry of the pod -> its claim, of those that were made from templates, or of all."""
    try:
        return {one.entry: one.claim for one in pod_claims(pod) if finds_all or one.is_generated}
    except DynamicResourcesError:
        return {}
