"""Leads a pod through admission: hints, the policy's verdict, then the devices.

Pods are admitted one after the other. A `TopologyManager` belongs to one kubelet instance; what a restart loses (the
hints of the containers) is computed again when the pods are admitted again.

Source: topologymanager/topology_manager.go, scope.go, scope_none.go, scope_container.go and scope_pod.go (kubernetes
v1.34.4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from ..model.config import PolicyName, ScopeName, TopologySettings
from ..model.errors import AllocationError
from ..model.metrics import AdmissionCounts
from ..model.pod import Container, Pod, PodUID
from ..model.pod_status import Rejection
from ..model.version import Version
from .hint import NO_HINT, EndlessEnumerationError, ProviderHints, TopologyHint
from .policy import Policy, policy_options

__all__ = ["AffinityStore", "Allocate", "HintProvider", "TopologyManager"]

_log = logging.getLogger(__name__)

_REJECTION = Rejection("TopologyAffinityError", "Resources cannot be allocated with Topology locality")

Allocate: TypeAlias = Callable[[Pod, Container], Awaitable[None]]
"""Gives a container its devices; raises AllocationError."""


class HintProvider(Protocol):
    """Gives the hints of one kind of resource that belongs to NUMA nodes."""

    def container_hints(self, pod: Pod, container: Container) -> ProviderHints:
        """Hints for what one container asks for."""

    def pod_hints(self, pod: Pod) -> ProviderHints:
        """Hints for what a pod asks for at one time."""


class TopologyManager:
    """Admits the pods of one kubelet instance.

    Attributes:
        counts: what /metrics reports about the admissions.
        stalled: why an admission does not return; None while all do. With `Walk.MASKS` in it the device manager is
            locked too: no list of a plugin is taken and no capacity published until the kubelet ends.

    Args:
        settings: policy, scope, options and machine.
        version: the Kubernetes minor to behave as.
        gates: feature gates that the user set, on or off.
        providers: asked for hints, in this order.
        affinities: takes the hints of the admitted containers; the allocation of devices reads them there.

    Raises:
        InputError: the kubelet would not start with these options; the message is the kubelet's.
    """

    def __init__(
        self,
        settings: TopologySettings,
        version: Version,
        gates: Mapping[str, bool],
        providers: Sequence[HintProvider],
        affinities: AffinityStore,
    ) -> None:
        self._policy = Policy(settings, policy_options(settings, version, gates))
        self._scope = ScopeName(settings.scope)
        self._providers = providers
        self._affinities = affinities
        self.counts = AdmissionCounts()
        self.stalled: EndlessEnumerationError | None = None

    async def admit(self, pod: Pod, allocate: Allocate) -> Rejection | None:
        """Find affinities for a pod and have its devices allocated, container after container.

        It does not return where the kubelet would be busy for ever (see `stalled`); cancelling ends the wait.

        Args:
            pod: its init containers come before the others.
            allocate: gives a container its devices.

        Returns:
            None for a pod that is admitted. The devices that a rejected pod was given before stay with it until they
            are released as those of an inactive pod.

        Raises:
            KubeletPanicError: the kubelet of this minor would end here.
        """
        self.counts.requests += 1
        try:
            return await self._admit(pod, allocate)
        except EndlessEnumerationError as error:
            self.stalled = error
            _log.error("admission of pod %s: %s", pod.key, error)
            never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            await never
            return None

    async def _admit(self, pod: Pod, allocate: Allocate) -> Rejection | None:
        if self._policy.name is PolicyName.NONE:
            return await self._admit_without_policy(pod, allocate)
        rejection = await (
            self._admit_pod(pod, allocate) if self._scope is ScopeName.POD else self._admit_containers(pod, allocate)
        )
        self.counts.errors += rejection is not None
        return rejection

    async def _admit_without_policy(self, pod: Pod, allocate: Allocate) -> Rejection | None:
        for container in pod.containers:
            if rejection := await self._allocate(pod, container, allocate):
                return rejection
        return None

    async def _admit_containers(self, pod: Pod, allocate: Allocate) -> Rejection | None:
        for container in pod.containers:
            verdict = self._policy.merge([each.container_hints(pod, container) for each in self._providers])
            if not verdict.admits:
                self._count_alignment(is_aligned=False)
                return _REJECTION
            self._affinities.set_affinity(pod.uid, container.name, verdict.hint)
            if rejection := await self._allocate(pod, container, allocate):
                return rejection
            self._count_alignment(is_aligned=True)
        return None

    async def _admit_pod(self, pod: Pod, allocate: Allocate) -> Rejection | None:
        verdict = self._policy.merge([each.pod_hints(pod) for each in self._providers])
        if not verdict.admits:
            self._count_alignment(is_aligned=False)
            return _REJECTION
        for container in pod.containers:
            self._affinities.set_affinity(pod.uid, container.name, verdict.hint)
            if rejection := await self._allocate(pod, container, allocate):
                return rejection
        self._count_alignment(is_aligned=True)
        return None

    async def _allocate(self, pod: Pod, container: Container, allocate: Allocate) -> Rejection | None:
        try:
            await allocate(pod, container)
        except AllocationError as error:
            return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")
        return None

    def _count_alignment(self, *, is_aligned: bool) -> None:
        # Only this policy guarantees that what it admits is aligned.
        if self._policy.name is PolicyName.SINGLE_NUMA_NODE:
            counted = self.counts.aligned if is_aligned else self.counts.not_aligned
            counted[self._scope] += 1


class AffinityStore:
    """Pod -> container -> hint.

    Hints stay until the kubelet ends. The real one drops those of a container that is removed; nobody reads them again,
    as an admission replaces its pod's hints.
    """

    def __init__(self) -> None:
        self._hints: dict[PodUID, dict[str, TopologyHint]] = {}

    def get_affinity(self, pod_uid: PodUID, container: str) -> TopologyHint:
        """The hint of a container; `NO_HINT` when it has none."""
        return self._hints.get(pod_uid, {}).get(container, NO_HINT)

    def set_affinity(self, pod_uid: PodUID, container: str, hint: TopologyHint) -> None:
        self._hints.setdefault(pod_uid, {})[container] = hint
