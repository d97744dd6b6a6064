"""The worker of one pod on its node, from admission to the end of its last container.

A worker looks at the pod's containers whenever one of them has started or ended, whenever the pod changes, and when a
pause before another try is over; it rests in between. What is to be done is decided in `pod_actions`.

Source: kubelet/pod_workers.go; kubelet/kubelet.go, ``SyncPod``, ``SyncTerminatingPod``; pleg/generic.go, ``Relist``;
kuberuntime/kuberuntime_manager.go, ``SyncPod`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from .._internal.change import Change
from .._internal.doors import Door
from ..cluster_api import ClusterApi
from ..container_manager import ContainerManager
from ..dra.pod_claims import DynamicResourcesError
from ..golang.text import go_duration
from ..model.clock import Clock
from ..model.config import KubeletConfig
from ..model.errors import AllocationError
from ..model.pod import Container, ContainerKind, Pod
from ..model.pod_status import PodPhase, PodStatus, Waiting
from ..model.version import Difference
from ..runtime.container_records import ContainerRecords
from ..runtime.container_runtime import ContainerStartError, StartFailure
from ..runtime.program import ContainerConfigError, check_mounts, environment
from .pod_actions import CrashLoopBackOff, PodActions, actions_for
from .status import StatusGenerator
from .termination import end_containers, terminated
from .volumes import VolumeRetry, Volumes

__all__ = ["ENDS_DELETED_PODS", "PodTools", "PodWorker"]

_BACK_OFF_RETRY_S: Final = Difference(
    "seconds until a container in back-off is tried again; none: at the end of its back-off. Up to 1.32 an error "
    "that is a back-off should wait for the next resync but never does, as the results of a sync always have one "
    "without an error",
    {"1.26": 10.0, "1.35": None},
    "kubelet/pod_workers.go, ``completeWork``; kubelet/kubelet.go, end of ``SyncPod`` (kubernetes v1.26.15, "
    "v1.32.13, v1.34.4, v1.35.4), without their jitter",
)
_CREATED_EVENT: Final = Difference(
    "message of a container's Created event, with ``{name}`` for its name",
    {
        "1.26": "Created container {name}",
        "1.29.14": "Created container: {name}",
        "1.30": "Created container {name}",
        "1.30.10": "Created container: {name}",
        "1.31": "Created container {name}",
        "1.31.6": "Created container: {name}",
        "1.35": "Container created",
    },
    "kuberuntime/kuberuntime_container.go, ``startContainer`` (kubernetes v1.29.10, v1.29.14, v1.30.9, v1.30.10, "
    "v1.31.5, v1.31.6, v1.34.4, v1.35.4)",
)
_STARTED_EVENT: Final = Difference(
    "message of a container's Started event, with ``{name}`` for its name",
    {"1.26": "Started container {name}", "1.35": "Container started"},
    "kuberuntime/kuberuntime_container.go, ``startContainer`` (kubernetes v1.34.4, v1.35.4)",
)
ENDS_DELETED_PODS: Final = Difference(
    "a deleted pod gets a terminal phase before its object is removed",
    {"1.26": False, "1.27": True},
    "kubelet/kubelet_pods.go, ``getPhase``; status/status_manager.go, ``TerminatePod`` (kubernetes v1.26.15, v1.27.16)",
)

_END: Final = Door("end of a pod")
_RETRY_S: Final = 10.0
"""The pause after a sync that failed. Source: kubelet/pod_workers.go, ``completeWork``, without its jitter."""
_RESYNC_S: Final = 60.0
"""The pause after one that did not: that claims could not be prepared is no failure of the sync."""
_RELIST_S: Final = 1.0
"""When a new sandbox is noticed, which is reason to look at its pod again."""
_LONGEST_RETRY_S: Final = 60.0
_STARTED_AT_ONCE: Final = 100
"""Containers that are started before others have a turn; few pods have as many."""
_MANY: Final = 1_000
"""Containers of a pod whose looks are paused between."""
_PAUSE_FOR_EACH_S: Final = 0.0002
"""Some 25 times what a look takes for each; with it a pod of 5,000 containers is looked at once a second."""
_SHORTEST_GRACE_S: Final = 1.0
_CONFIG_ERROR: Final = "CreateContainerConfigError"
_BACK_OFF: Final = "CrashLoopBackOff"
_RPC_ERROR: Final = re.compile(r"^rpc error: code = \w+ desc = ")

_log = logging.getLogger(__name__)


class RecordEvent(Protocol):
    """Records an Event about a pod, or about the container of it that is named."""

    def __call__(self, pod: Pod, type_: str, reason: str, message: str, container: str | None = None, /) -> None: ...


@dataclass(frozen=True, slots=True)
class PodTools:
    """What the workers of one kubelet instance share.

    Attributes:
        publish: sends a pod's status to the cluster.
        record: records an Event about a pod, or about one of its containers.
        tasks: owns the pauses.
    """

    config: KubeletConfig
    clock: Clock
    tasks: asyncio.TaskGroup
    containers: ContainerManager
    records: ContainerRecords
    statuses: StatusGenerator
    back_off: CrashLoopBackOff
    volumes: Volumes
    cluster: ClusterApi
    publish: Callable[[Pod, PodStatus], None]
    record: RecordEvent


class PodWorker:
    """One pod; `run` returns when its containers have ended and none is to be started again.

    Args:
        published: the status that the cluster knows.
    """

    def __init__(self, pod: Pod, tools: PodTools, published: PodStatus) -> None:
        self.pod = pod
        self.is_ending = False
        """Its containers are being ended: its devices are still its own."""
        self._tools = tools
        self._records = tools.records
        self._by_container = tools.statuses.by_container
        self._published = published
        self._grace_s: float | None = None
        self._reasons: dict[str, Waiting] = {}
        self._change = Change()
        self._volumes: VolumeRetry | None = VolumeRetry()
        """None once the volumes are set up."""

    def wake(self) -> None:
        """Something about the pod or its containers has changed."""
        self._change.notify()

    def update(self, pod: Pod) -> None:
        """The pod object has changed; a deletion makes the worker end its containers."""
        old, self.pod = self.pod, pod
        if pod.deletion_grace_s is not None:
            self.end(pod.deletion_grace_s)
        elif replace(pod, status=old.status) != old:
            self.wake()

    def end(self, grace_s: float) -> None:
        """End the containers within `grace_s` seconds; a later call can only shorten that."""
        if self._grace_s is None or grace_s < self._grace_s:
            self._grace_s = grace_s
            self.wake()

    async def run(self) -> None:
        """Keep the pod's containers as they should be, then end them.

        Raises:
            KubeletPanicError: a late Allocate made the kubelet of this minor crash.
            HostError: this machine cannot run containers.
        """
        self._records.catch_up(self.pod.uid)
        while self._grace_s is None:
            seen = self._change.count
            status = self._status()
            if status.phase.is_terminal:
                break
            self._publish(status)
            retry_s = await self._sync()
            await self._rest(seen, retry_s)
            await self._records.relisted(self.pod.uid)
            await self._pause()
        self.is_ending = True
        await self._end_containers()

    def _publish(self, status: PodStatus) -> None:
        self._published = status
        self._tools.publish(self.pod, status)

    def _status(self, *, is_over: bool = False) -> PodStatus:
        return self._tools.statuses.status_of(self.pod, self._reasons, is_over=is_over)

    # Starting

    async def _sync(self) -> float | None:
        """Do what is to be done now; the seconds until the next try of what could not be, None when nothing is left."""
        await self._records.cri.until_resumed()
        if (retry_s := self._set_volumes_up()) is not None:
            return retry_s
        actions = actions_for(
            self.pod,
            self._records.containers(self.pod.uid),
            has_sandbox=self._records.has_sandbox(self.pod.uid),
            had_sandbox=self._records.had_sandbox(self.pod.uid),
            by_container=self._by_container,
        )
        if actions.ends_pod:
            await end_containers(self.pod, self.pod.grace_s, self._tools.records, self._tools.clock, self._killing)
            return None
        if not actions.makes_sandbox:
            return await self._start(actions)
        if not await self._make_sandbox():
            return _RESYNC_S
        retry_s = await self._start(actions)
        return None if retry_s is None else min(retry_s, _RELIST_S)

    def _set_volumes_up(self) -> float | None:
        """Set the volumes up, once; the seconds until the next try where that was not possible."""
        clock, retry = self._tools.clock, self._volumes
        if retry is None:
            return None
        if clock.now() >= retry.due:
            faults = self._tools.volumes.set_up(self.pod)
            if not faults:
                self._volumes = None
                return None
            for fault in faults:
                self._tools.record(self.pod, "Warning", "FailedMount", fault)
            retry.failed(clock)
        return retry.due - clock.now()

    async def _make_sandbox(self) -> bool:
        """Have the pod's claims prepared, then give it a sandbox; False where it gets none.

        What is begun is finished: a deletion that comes meanwhile waits until the drivers have answered.
        """
        if self._records.had_sandbox(self.pod.uid):
            text = "Pod sandbox changed, it will be killed and re-created."
            self._tools.record(self.pod, "Normal", "SandboxChanged", text)
        dra = self._tools.containers.dra
        try:
            if dra is not None:
                await dra.prepare(self.pod)
        except DynamicResourcesError as error:
            text = f"Failed to prepare dynamic resources: {error}"
            self._tools.record(self.pod, "Warning", "FailedPrepareDynamicResources", text)
            return False
        self._records.make_sandbox(self.pod)
        return True

    async def _start(self, actions: PodActions) -> float | None:
        retries = []
        for container in actions.init:
            retry_s = await self._try_to_start(container)
            if retry_s is not None:
                retries.append(retry_s)
                if container.kind is ContainerKind.INIT:
                    return min(retries)
        for count, container in enumerate(actions.apps, 1):
            retry_s = await self._try_to_start(container)
            if retry_s is not None:
                retries.append(retry_s)
            if count % _STARTED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return min(retries, default=None)

    async def _try_to_start(self, container: Container) -> float | None:
        """Start a container; the seconds until the next try when it did not start.

        What is begun is finished: a deletion that comes meanwhile waits until all containers have had their turn.
        """
        run = self._records.run_of(self.pod.uid, container.name)
        if run is not None:
            remaining_s = self._tools.back_off.remaining_s(self.pod.uid, container.name, run.finished_at)
            if remaining_s:
                return self._hold_back(container, remaining_s)
            self._tools.back_off.started(self.pod.uid, container.name)
        return await self._start_container(container)

    def _hold_back(self, container: Container, remaining_s: float) -> float:
        pod = f"{self.pod.name}_{self.pod.namespace}({self.pod.uid})"
        text = f"Back-off restarting failed container {container.name} in pod {pod}"
        self._tools.record(self.pod, "Warning", "BackOff", text, container.name)
        pause = go_duration(self._tools.back_off.delay_s(self.pod.uid, container.name))
        message = f"back-off {pause} restarting failed container={container.name} pod={pod}"
        self._explain(container, Waiting(_BACK_OFF, message))
        retry_s = _BACK_OFF_RETRY_S.at(self._tools.config.version)
        return min(remaining_s, _LONGEST_RETRY_S) if retry_s is None else retry_s

    async def _start_container(self, container: Container) -> float | None:
        version = self._tools.config.version
        created = _CREATED_EVENT.at(version).format(name=container.name)
        try:
            options = await self._tools.containers.run_options(self.pod, container)
            env = environment(self.pod, container, self._tools.cluster)
            check_mounts(self.pod, container, env, options.envs)
        except (AllocationError, DynamicResourcesError, ContainerConfigError) as error:
            # Of an error that is a gRPC status, only the description is shown.
            message = _RPC_ERROR.sub("", str(error))
            self._tools.record(self.pod, "Warning", "Failed", f"Error: {message}", container.name)
            self._explain(container, Waiting(_CONFIG_ERROR, message))
            return _RETRY_S
        try:
            await self._records.start(self.pod, replace(container, env=env), options)
        except ContainerStartError as error:
            if error.failure is StartFailure.RUN:
                self._tools.record(self.pod, "Normal", "Created", created, container.name)
            self._tools.record(self.pod, "Warning", "Failed", f"Error: {error.message}", container.name)
            self._explain(container, Waiting(error.failure.value, error.message))
            return _RETRY_S
        self._reasons.pop(container.name, None)
        self._tools.record(self.pod, "Normal", "Created", created, container.name)
        started = _STARTED_EVENT.at(version).format(name=container.name)
        self._tools.record(self.pod, "Normal", "Started", started, container.name)
        return None

    def _explain(self, container: Container, reason: Waiting) -> None:
        self._reasons[container.name] = reason
        self._publish(self._status())

    async def _rest(self, seen: int, retry_s: float | None) -> None:
        """Wait for a change, or until the next try is due; others have a turn in any case."""
        await asyncio.sleep(0)
        if retry_s is None:
            await self._change.wait(seen)
            return
        alarm = self._tools.tasks.create_task(self._wake_after(retry_s), name=f"next try of pod {self.pod.key}")
        try:
            await self._change.wait(seen)
        finally:
            alarm.cancel()

    async def _wake_after(self, delay_s: float) -> None:
        await self._tools.clock.sleep(delay_s)
        self.wake()

    async def _pause(self) -> None:
        """Wait until a pod of thousands of containers is looked at again, unless it is to end.

        A look takes time for each container, and a kubelet looks once a second at most, when it lists them again.
        """
        count, clock = len(self.pod.containers), self._tools.clock
        until_s = clock.now() + (count * _PAUSE_FOR_EACH_S if count > _MANY else 0.0)
        while self._grace_s is None and (left_s := until_s - clock.now()) > 0:
            await self._rest(self._change.count, left_s)

    # Ending

    async def _end_containers(self) -> None:
        self._publish(self._before_the_end(self._status()))
        has_ended = False
        while not has_ended:
            seen, grace_s = self._change.count, self.pod.grace_s if self._grace_s is None else self._grace_s
            work = partial(self._end_within, max(grace_s, _SHORTEST_GRACE_S))
            until_done = _END.again_until_done(self.pod.key, work, self._tools.clock.sleep, self._record_failure)
            ending = self._tools.tasks.create_task(until_done, name=f"end of pod {self.pod.key}")
            try:
                has_ended = await self._until_shortened(ending, seen, grace_s)
            finally:
                ending.cancel()
        await self._unprepare()
        self.is_ending = False
        self._publish(self._final_status())

    async def _end_within(self, grace_s: float) -> None:
        await end_containers(self.pod, grace_s, self._records, self._tools.clock, self._killing)

    def _record_failure(self, error: str) -> None:
        self._tools.record(self.pod, "Warning", "FailedKillPod", f"error killing pod: {error}")

    async def _unprepare(self) -> None:
        """Have the pod's claims unprepared, however long that takes: before, its end is not published."""
        dra = self._tools.containers.dra
        while dra is not None:
            seen = self._change.count
            try:
                await dra.unprepare(self.pod)
            except DynamicResourcesError as error:
                _log.error("Error syncing pod, skipping err=%s pod=%s/%s", error, self.pod.namespace, self.pod.name)
            else:
                return
            self._publish(self._before_the_end(self._status()))
            await self._rest(seen, _RETRY_S)

    async def _until_shortened(self, ending: asyncio.Task[None], seen: int, grace_s: float) -> bool:
        """Wait until all containers have ended, which is True, or a shorter grace is asked for."""
        ending.add_done_callback(lambda _: self.wake())
        while not ending.done() and not (self._grace_s is not None and self._grace_s < grace_s):
            seen = await self._change.wait(seen)
        return ending.done()

    def _before_the_end(self, status: PodStatus) -> PodStatus:
        """Hold back a terminal phase while a container may run: the scheduler would take the pod's place for free.

        Source: status/status_manager.go, ``mergePodStatus`` (kubernetes v1.34.4).
        """
        known = self._published
        if status.phase.is_terminal and not known.phase.is_terminal:
            return replace(status, phase=known.phase, reason=known.reason, message=known.message)
        return status

    def _final_status(self) -> PodStatus:
        version = self._tools.config.version
        status = terminated(self.pod, self._published, self._status(is_over=ENDS_DELETED_PODS.at(version)))
        if ENDS_DELETED_PODS.at(version) and not status.phase.is_terminal and not self.pod.is_static:
            # A pod that was deleted before it ran.
            return replace(status, phase=PodPhase.FAILED)
        return status

    def _killing(self, container: str) -> None:
        self._tools.record(self.pod, "Normal", "Killing", f"Stopping container {container}", container)
