"""Objects of ``resource.k8s.io`` in a simulated cluster, and what looks after them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from simkubelet.cluster import (
    JSON,
    DeviceTaintEviction,
    GarbageCollector,
    Key,
    Registry,
    ResourceClaimController,
    Served,
    StatusError,
    Store,
    all_strategies,
    kind_named,
)
from simkubelet.model.clock import Clock
from simkubelet.model.errors import InputError
from simkubelet.model.version import DYNAMIC_RESOURCES, FEATURE_GATES, Version

from ...story.verbs.pod_action import Create, DeleteClaim, ObjectAction, ReportConditions
from ..world.device_objects import GOES_WITHIN_S, STILL_THERE, reported_devices

_NAMESPACE = "default"


class SimulatedDeviceObjects:
    """Takes classes, slices, claims and templates as an API server does.

    Args:
        store: The cluster's.
        version: Of its control plane.
        gates: Its feature gates that are not as usual.
    """

    def __init__(self, store: Store, version: Version, gates: Mapping[str, bool]) -> None:
        self._store = store
        self._version = version
        self._has_claims = FEATURE_GATES[DYNAMIC_RESOURCES].is_on(version, gates)
        self._registry = Registry(store.objects, all_strategies(store.objects, version, gates), version)
        self._registry.create(kind_named("namespaces"), "", {"metadata": {"name": _NAMESPACE}})

    def works(self, clock: Clock) -> list[Coroutine[Any, Any, None]]:
        """What looks after claims: makes them from templates, takes them back, and ends pods with tainted devices."""
        works = [GarbageCollector(self._registry).run()]
        if self._has_claims:
            claims = ResourceClaimController(self._registry, clock, self._store.recorder, self._version)
            works += [claims.run(), DeviceTaintEviction(self._store, clock, self._version).run()]
        return works

    async def perform(self, action: ObjectAction) -> None:
        """Create an object, change it, or delete it, and wait until it is gone if the step does.

        Raises:
            InputError: The API server refuses it, it cannot be changed so, or something keeps the object.
        """
        try:
            match action:
                case Create():
                    self._check_known(action)
                    kind = kind_named(f"{_PLURALS[action.kind]}.resource.k8s.io")
                    self._registry.create(kind, _NAMESPACE if kind.namespaced else "", action.manifest)
                case DeleteClaim():
                    kind = kind_named("resourceclaims.resource.k8s.io")
                    self._registry.delete(kind, _NAMESPACE, action.claim)
                    if action.waits:
                        await self._until_gone(kind.key(_NAMESPACE, action.claim))
                case ReportConditions():
                    kind = kind_named("resourceclaims.resource.k8s.io")
                    place = kind, _NAMESPACE, action.claim
                    self._registry.update(*place, lambda claim: self._reported(action, claim), subresource="status")
        except StatusError as error:
            raise InputError(f"{action.title}: {error}") from None
        except TimeoutError:
            raise InputError(f"{action.title}: {STILL_THERE}") from None

    def _check_known(self, action: Create) -> None:
        """Refuse what is new in a later release; the other kinds are taken as ``v1`` before there is one."""
        if action.kind == "DeviceTaintRule" and not Served.by(self._version).knows(action.api_version, action.kind):
            raise InputError(f"{action.title}: the API server has no {action.kind} in {action.api_version}")

    def _reported(self, action: ReportConditions, claim: JSON) -> JSON:
        devices = reported_devices(action, claim, self._store.objects.wall_time.now())
        return {**claim, "status": {**claim["status"], "devices": devices}}

    async def _until_gone(self, key: Key) -> None:
        objects = self._store.objects
        async with asyncio.timeout(GOES_WITHIN_S):
            while objects.get(key) is not None:
                await objects.change.wait(objects.change.count)


_PLURALS = {
    "DeviceClass": "deviceclasses",
    "ResourceSlice": "resourceslices",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "DeviceTaintRule": "devicetaintrules",
}
