"""The pods of one kubelet instance: from their sources through admission to their workers.

Pods come from files of the node and from the cluster. They are admitted one after the other, in the order of their
creation; a pod that has ended before this kubelet started is not admitted again. The sources are ready once the first
pods of both have been through admission.

Source: kubelet/kubelet.go, ``HandlePodAdditions``, ``syncLoop``; kubelet/kubelet_pods.go, ``filterOutInactivePods``,
``HandlePodCleanups`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from .._internal.doors import Door
from ..container_manager import ContainerManager
from ..model.config import KubeletConfig
from ..model.errors import KubeletPanicError
from ..model.pod import ContainerKind, Pod, PodUID
from ..model.pod_status import PodPhase, PodStatus, Rejection
from ..model.resources import ResourceName
from ..model.version import FEATURE_GATES, Difference
from ..node import NodeContext
from ..runtime.container_records import ContainerRecords
from ..runtime.cri import RuntimeState
from .pod_actions import CrashLoopBackOff
from .pod_admission import ActivePods, PodAdmission
from .pod_worker import ENDS_DELETED_PODS, PodTools, PodWorker
from .static_pods import MirrorPods, read_static_pods, watch_static_pods
from .status import StatusGenerator
from .termination import end_orphan, terminated
from .volumes import Volumes

__all__ = ["Pods"]

_ADMITS_ENDED_PODS: Final = Difference(
    "a kubelet that starts admits pods that have ended too, and one that is refused ends as Failed, whatever it was",
    {
        "1.26": True,
        "1.28.14": False,
        "1.29": True,
        "1.29.9": False,
        "1.30": True,
        "1.30.5": False,
        "1.31": True,
        "1.31.1": False,
    },
    "kubelet/kubelet.go, ``HandlePodAdditions`` (kubernetes/kubernetes#126343; v1.28.13, v1.28.14, v1.29.8, v1.29.9, "
    "v1.30.4, v1.30.5, v1.31.0, v1.31.1)",
)

_log = logging.getLogger(__name__)

_TAKE: Final = Door("admission or update of a pod", KubeletPanicError)
_SYNC: Final = Door("sync of a pod", KubeletPanicError)
_RETRY_S: Final = 10.0
_COMPONENT: Final = "kubelet"
_SYNC_PERIOD_S: Final = 60.0


class Pods:
    """Pods of one kubelet instance and their workers.

    Args:
        directory: the node's folder.
        config: the kubelet's settings.
        records: what the runtime knows.
        context: the cluster, and the owner of all tasks.
        active: kept by this object.
        volumes: sets those of the pods up.
        allocatable: the node's allocatable as published.
        state: runtime errors that pause the pod sync.
        on_panic: called with a panic in a worker.
    """

    def __init__(
        self,
        directory: Path,
        config: KubeletConfig,
        containers: ContainerManager,
        records: ContainerRecords,
        context: NodeContext,
        active: ActivePods,
        volumes: Volumes,
        allocatable: Callable[[], Mapping[ResourceName, int]],
        state: RuntimeState,
        on_panic: Callable[[KubeletPanicError], None],
    ) -> None:
        self._directory = directory
        self._config = config
        self._node = config.node
        self._containers = containers
        self._records = records
        self._cluster = context.cluster
        self._context = context
        self._active = active
        self._admission = PodAdmission(config, containers, active, allocatable)
        self._state = state
        self._on_panic = on_panic
        self._known: dict[PodUID, Pod] = {}
        self._static: dict[PodUID, Pod] = {}
        self._mirrors = MirrorPods(context.cluster)
        self._workers: dict[PodUID, PodWorker] = {}
        self._tasks: dict[PodUID, asyncio.Task[None]] = {}
        self._listeners: set[asyncio.Task[None]] = set()
        self._places: Mapping[str, int] = {}
        self._are_files_new = config.static_pod_path is not None
        self._watch = self._cluster.watch_pods(self._node)
        self._tools = PodTools(
            config=config,
            clock=context.clock,
            tasks=context.tasks,
            containers=containers,
            records=records,
            statuses=StatusGenerator(config, containers, records),
            back_off=CrashLoopBackOff.of(config, context.clock),
            publish=self._publish,
            record=self._record,
            volumes=volumes,
            cluster=context.cluster,
        )

    async def run(self, first: Sequence[str] = ()) -> None:
        """Take pods until cancelled.

        Args:
            first: keys of pods that are admitted in this order, before all others; those come in that of their
                creation.

        Raises:
            KubeletPanicError: an admission made the kubelet of this minor crash.
        """
        self._places = {key: place for place, key in enumerate(first)}
        self._records.on_change, self._records.on_failure = self._wake, self._record_failure
        if self._config.static_pod_path is not None:
            self._listen(watch_static_pods(self._config.static_pod_path, self._directory, self._note_files))
        if self._tools.statuses.reports_health:
            self._listen(self._follow(self._containers.health_updates.get))
            self._listen(self._sync_again())
            if self._containers.dra is not None:
                self._listen(self._follow(self._containers.dra.updates.get))
        while True:
            await self._state.until_well()
            seen = self._watch.change.count
            await self._take_files()
            await self._take_changes()
            if not self._containers.allocator.are_sources_ready:
                self._containers.allocator.are_sources_ready = True
                self._end_orphans()
            await self._watch.change.wait(seen)

    def cut(self) -> list[asyncio.Task[None]]:
        """Give up all pods as a process that ends does: containers continue, nothing more is published.

        Returns:
            The tasks that have been cancelled.
        """
        self._cluster.end_watch(self._node, self._watch)
        self._records.on_change = self._records.on_failure = None
        tasks = [*self._tasks.values(), *self._listeners]
        # A task that is cancelled again while it cleans up would leave a container behind.
        self._tasks, self._listeners = {}, set()
        for task in tasks:
            task.cancel()
        return tasks

    def known(self) -> tuple[Pod, ...]:
        """The pods that this kubelet has seen and that are not gone, ended ones too."""
        return tuple(self._known.values())

    def active(self) -> tuple[Pod, ...]:
        """Those of them that count; see `ActivePods`."""
        return tuple(pod for uid, pod in self._known.items() if uid in self._active)

    def _listen(self, work: Coroutine[Any, Any, None]) -> None:
        self._listeners.add(task := self._context.tasks.create_task(work, name=f"pods of {self._node}"))
        task.add_done_callback(self._listeners.discard)

    async def _follow(self, reported: Callable[[], Awaitable[Iterable[PodUID]]]) -> None:
        """Sync the pods that a manager of devices reports for a change of health."""
        while True:
            for uid in await reported():
                self._wake(uid)

    async def _sync_again(self) -> None:
        """Sync every pod from time to time, for a change of health that no update has reported.

        Every other change wakes the pod's worker, so this runs only where health is reported.

        Source: kubelet/pod_workers.go, ``completeWork`` (kubernetes v1.36.3): after a minute, up to half of it more.
        """
        while True:
            await self._context.clock.sleep(_SYNC_PERIOD_S)
            for uid in list(self._workers):
                self._wake(uid)

    # The cluster's pods

    async def _take_changes(self) -> None:
        """Take what is there at the start by its creation, later what comes in the order in which it does.

        Source: kubelet/config/apiserver.go, ``newSourceApiserverFromLW``; kubelet/kubelet.go, ``HandlePodAdditions``
        (kubernetes v1.34.4): only the pods of one update are sorted, and each event of the watch is one.
        """
        changed = [(uid, self._read(uid)) for uid in self._watch.take()]
        for uid, pod in changed:
            if pod is None:
                with _TAKE(uid):
                    self._forget(uid)
                    self._mirrors.restore()
        pods = [pod for _, pod in changed if pod is not None]
        if not self._containers.allocator.are_sources_ready:
            pods.sort(key=self._turn)
        for pod in pods:
            with _TAKE(pod.key, partial(self._record_failure, pod)) as passage:
                await self._take_change(pod)
            if passage.error is not None:
                self._listen(self._take_later(pod.uid))

    async def _take_change(self, pod: Pod) -> None:
        if pod.mirror_of is not None:
            self._mirrors.check(pod)
        elif pod.uid not in self._known:
            await self._take(pod)
        else:
            self._update(pod)

    async def _take_later(self, uid: PodUID) -> None:
        """Take a pod again after a failure; one without a worker as if it was new."""
        if uid not in self._workers:
            self._known.pop(uid, None)
            self._active.discard(uid)
        await self._context.clock.sleep(_RETRY_S)
        self._watch.note(uid)

    def _turn(self, pod: Pod) -> tuple[int, int]:
        return self._places.get(pod.key, len(self._places)), pod.ordinal

    def _read(self, uid: PodUID) -> Pod | None:
        pod = self._cluster.pod(uid)
        return None if pod is None else self._as_understood(pod)

    def _as_understood(self, pod: Pod) -> Pod:
        """A pod as this minor reads its manifest: an old one knows no sidecars."""
        if FEATURE_GATES["SidecarContainers"].at(self._config.version) is not None:
            return pod
        return pod.with_kinds({ContainerKind.SIDECAR: ContainerKind.INIT})

    async def _take(self, pod: Pod) -> None:
        """A pod that this kubelet has not seen before.

        Source: kubelet/pod_workers.go, ``UpdatePod``; kubelet.go, ``SyncTerminatedPod``; status/status_manager.go,
        ``syncPod`` (kubernetes v1.34.4): one that has ended is only cleaned up, which removes a deleted one.
        """
        self._known[pod.uid] = pod
        has_ended = pod.status.phase.is_terminal
        is_over = has_ended and not self._records.is_any_running(pod.uid)
        if is_over and pod.is_deleting:
            # A kubelet before this one has ended it, and was killed before it removed the object.
            self._cluster.remove_pod(pod.uid)
            return
        if not has_ended or _ADMITS_ENDED_PODS.at(self._config.version):
            self._active.add(pod)
            rejection = await self._admission.rejection(pod)
            if rejection is not None:
                self._reject(pod, rejection)
                return
        if is_over:
            self._active.discard(pod.uid)
            return
        self._active.add(pod)
        shown = self._mirrors.of(pod) if pod.is_static else pod
        worker = PodWorker(pod, self._tools, published=(shown or pod).status)
        self._workers[pod.uid] = worker
        if pod.deletion_grace_s is not None:
            worker.end(pod.deletion_grace_s)
        # A static pod that takes another's name begins when that one has ended.
        before = [task for uid, task in self._tasks.items() if pod.is_static and self._is_named(uid, pod.key)]
        self._run(pod, self._work(worker, before))

    def _is_named(self, uid: PodUID, key: str) -> bool:
        worker = self._workers.get(uid)
        return worker is not None and worker.pod.key == key

    def _update(self, pod: Pod) -> None:
        self._known[pod.uid] = pod
        worker = self._workers.get(pod.uid)
        if worker is not None:
            worker.update(pod)
        elif pod.is_deleting:
            self._cluster.remove_pod(pod.uid)
        if pod.status.phase.is_terminal and not (worker is not None and worker.is_ending):
            self._active.discard(pod.uid)

    def _forget(self, uid: PodUID) -> None:
        """A pod object is gone: what still runs of it is ended, and does not count any more."""
        self._active.discard(uid)
        pod, worker = self._known.pop(uid, None), self._workers.get(uid)
        if worker is not None:
            worker.end(worker.pod.grace_s)
        elif pod is not None and (uid not in self._tasks or self._tasks[uid].done()):
            self._records.remove(uid)

    def _reject(self, pod: Pod, rejection: Rejection) -> None:
        self._record(pod, "Warning", rejection.reason, self._admission.event_message(rejection))
        self._active.discard(pod.uid)
        status = PodStatus(PodPhase.FAILED, rejection.reason, f"Pod was rejected: {rejection.message}")
        if self._records.is_any_running(pod.uid):
            self._run(pod, self._until_done(pod, partial(self._end_refused, pod, status)))
        else:
            self._publish(pod, status)

    # Workers

    def _wake(self, uid: PodUID) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def _run(self, pod: Pod, work: Coroutine[Any, Any, None]) -> None:
        task = self._context.tasks.create_task(work, name=f"pod {pod.key}")
        self._tasks[pod.uid] = task
        task.add_done_callback(partial(self._forget_task, pod.uid))

    def _forget_task(self, uid: PodUID, ended: asyncio.Task[None]) -> None:
        # A later task of the same pod stays.
        if self._tasks.get(uid) is ended:
            del self._tasks[uid]

    async def _work(self, worker: PodWorker, before: Collection[asyncio.Task[None]]) -> None:
        if before:
            await asyncio.wait(before)
        pod = worker.pod
        try:
            await self._until_done(pod, worker.run)
        except KubeletPanicError as panic:
            self._on_panic(panic)
            return
        uid = worker.pod.uid
        self._active.discard(uid)
        del self._workers[uid]
        self._tools.back_off.forget(uid)
        if worker.pod.is_deleting:
            self._known.pop(uid, None)
            self._cluster.remove_pod(uid)
        if uid not in self._known:
            self._records.remove(uid)
        if worker.pod.is_static:
            # The same manifest may be back already; its pod begins when the one before has ended.
            self._note_files()

    async def _end_refused(self, pod: Pod, refused: PodStatus) -> None:
        """A pod that was refused while its containers run has a terminal phase when they have ended.

        Where all of them ended well it is that of success, and the refusal is forgotten.

        Source: status/status_manager.go, ``mergePodStatus``; pod_workers.go, ``CouldHaveRunningContainers``;
        kubelet_pods.go, ``generateAPIPodStatus`` (kubernetes v1.34.4).
        """
        await self._end_orphan(pod)
        statuses = self._tools.statuses
        status = statuses.status_of(pod, {}, is_over=ENDS_DELETED_PODS.at(self._config.version))
        if status.phase is not PodPhase.SUCCEEDED:
            status = statuses.status_of(replace(pod, status=refused), {}, is_over=True)
        self._publish(pod, terminated(pod, pod.status, status))

    async def _end_orphan(self, pod: Pod) -> None:
        def record(container: str) -> None:
            self._record(pod, "Normal", "Killing", f"Stopping container {container}", container)

        await end_orphan(pod, self._records, self._context.clock, record)
        if pod.uid not in self._known:
            self._records.remove(pod.uid)

    def _end_orphans(self) -> None:
        """End the containers of pods that went while no kubelet looked."""
        for pod in self._records.pods():
            if pod.uid not in self._known:
                self._run(pod, self._until_done(pod, partial(self._end_orphan, pod)))

    async def _until_done(self, pod: Pod, work: Callable[[], Awaitable[None]]) -> None:
        await _SYNC.again_until_done(pod.key, work, self._context.clock.sleep, partial(self._record_failure, pod))

    # Static pods

    def _note_files(self) -> None:
        self._are_files_new = True
        self._watch.change.notify()

    async def _take_files(self) -> None:
        folder = self._config.static_pod_path
        if folder is None or not self._are_files_new:
            return
        self._are_files_new = False
        found = await read_static_pods(folder, self._node, self._directory)
        for uid in [known for known in self._static if known not in found]:
            pod = self._static.pop(uid)
            self._forget(uid)
            self._mirrors.remove(pod)
        for uid, pod in found.items():
            if uid not in self._static and uid not in self._workers:
                with _TAKE(pod.key, partial(self._record_failure, pod)):
                    pod = self._static[uid] = self._as_understood(pod)
                    self._mirrors.add(pod)
                    await self._take(pod)

    # Reports

    def _publish(self, pod: Pod, status: PodStatus) -> None:
        if pod.is_static:
            self._mirrors.publish(pod, status)
        else:
            self._cluster.set_pod_status(pod.uid, status)

    def _record_failure(self, pod: Pod, error: str) -> None:
        self._record(pod, "Warning", "FailedSync", f"Error syncing pod, skipping: {error}")

    def _record(self, pod: Pod, type_: str, reason: str, message: str, container: str | None = None, /) -> None:
        self._cluster.record(pod, type_, reason, message, _COMPONENT, container=container)
