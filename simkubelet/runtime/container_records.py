"""What a node's container runtime knows of its containers, running and ended, and of the sandboxes of its pods.

It belongs to the node: containers end, and are recorded, while the kubelet is down. A kubelet that starts learns from
here what runs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from .._internal.doors import Door
from ..devices.pod_devices import DeviceRunOptions
from ..model.clock import Clock
from ..model.events import ContainerExited, ContainerStarted, Observer
from ..model.pod import Container, Pod, PodUID
from .container_runtime import (
    START_FAILED_EXIT_CODE,
    ContainerHandle,
    ContainerRuntime,
    ContainerStartError,
    ExitReason,
    ExitStatus,
    StartFailure,
)
from .cri import Cri
from .program import program_of

__all__ = ["ContainerRecord", "ContainerRecords"]

_WAIT: Final = Door("end of a container")
_KEPT: Final = 2
"""Runs of a container that stay on record: the last one and what its status calls the last state."""


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """One run of a container.

    Attributes:
        attempt: how often the container was started before.
        env: what its process sees: the plugins' variables, and over them the pod's own.
        exit: how it ended; None while it runs.
        finished_at: when it ended, in seconds of the node's clock.
    """

    name: str
    attempt: int
    env: Mapping[str, str]
    options: DeviceRunOptions
    started_at: float
    exit: ExitStatus | None = None
    finished_at: float = 0.0

    @property
    def is_running(self) -> bool:
        return self.exit is None


@dataclass(slots=True)
class _PodRecord:
    """A pod on the node; `runs` has its containers in the order of their first start, each with its last runs."""

    pod: Pod
    sandboxes: int = 0
    has_sandbox: bool = False
    runs: dict[str, list[ContainerRecord]] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    handles: dict[str, ContainerHandle] = field(default_factory=dict)
    unseen_ends: list[ContainerExited] = field(default_factory=list)


class ContainerRecords:
    """The containers of one node.

    Args:
        node: the node's name.
        runtime: starts them.
        clock: the node's time.
        observe: called when a container starts, and with its end when a kubelet knows it; see `catch_up`.
        tasks: owns the waits for their ends; `close` ends these.
    """

    def __init__(
        self, node: str, runtime: ContainerRuntime, clock: Clock, observe: Observer, tasks: asyncio.TaskGroup
    ) -> None:
        self.cri = Cri(clock)
        self.on_change: Callable[[PodUID], None] | None = None
        """The kubelet's ear, for as long as one listens."""
        self.on_failure: Callable[[Pod, str], None] | None = None
        """Likewise, for what goes wrong with a pod."""
        self._node = node
        self._runtime = runtime
        self._clock = clock
        self._observe = observe
        self._group = tasks
        self._pods: dict[PodUID, _PodRecord] = {}
        self._waits: set[asyncio.Task[None]] = set()

    def pods(self) -> tuple[Pod, ...]:
        """Pods that have or had a container here, as they were when they first came."""
        return tuple(record.pod for record in self._pods.values())

    def containers(self, pod_uid: PodUID) -> Mapping[str, ContainerRecord]:
        """Container -> its last run."""
        return {name: runs[-1] for name, runs in self.runs(pod_uid).items()}

    def runs(self, pod_uid: PodUID) -> Mapping[str, Sequence[ContainerRecord]]:
        """Container -> its last runs, as far as they are on record, the last one at the end; a view, which follows."""
        record = self._pods.get(pod_uid)
        return {} if record is None else record.runs

    def run_of(self, pod_uid: PodUID, container: str) -> ContainerRecord | None:
        """A container's last run, None when it is not on record."""
        runs = self.runs(pod_uid).get(container, ())
        return runs[-1] if runs else None

    def is_any_running(self, pod_uid: PodUID) -> bool:
        return any(container.is_running for container in self.containers(pod_uid).values())

    def running(self) -> frozenset[tuple[PodUID, str]]:
        """(pod, container) of all that runs."""
        return self._with_run(lambda run: run.is_running)

    def exited(self) -> frozenset[tuple[PodUID, str]]:
        """(pod, container) of all of which a run that ended is on record, whether or not another one followed."""
        return self._with_run(lambda run: not run.is_running)

    def _with_run(self, is_meant: Callable[[ContainerRecord], bool]) -> frozenset[tuple[PodUID, str]]:
        return frozenset(
            (pod_uid, name)
            for pod_uid, record in self._pods.items()
            for name, runs in record.runs.items()
            if any(is_meant(run) for run in runs)
        )

    def count(self) -> tuple[int, Counter[str]]:
        """How many pods have a sandbox, and how many containers of all pods are running and exited.

        A kubelet keeps one ended run of each container, whatever is on record here.

        Source: kubelet/pleg/generic.go, ``updateRunningPodAndContainerMetrics`` (kubernetes v1.34.4).
        """
        states: Counter[str] = Counter()
        for record in self._pods.values():
            for runs in record.runs.values():
                states += Counter({"running" if run.is_running else "exited" for run in runs})
        return sum(record.has_sandbox for record in self._pods.values()), states

    # Sandboxes

    def has_sandbox(self, pod_uid: PodUID) -> bool:
        """Whether the pod has a sandbox that its containers can be started in."""
        record = self._pods.get(pod_uid)
        return record is not None and record.has_sandbox

    def had_sandbox(self, pod_uid: PodUID) -> bool:
        """Whether the pod ever had one."""
        record = self._pods.get(pod_uid)
        return record is not None and record.sandboxes > 0

    def make_sandbox(self, pod: Pod) -> None:
        """Give a pod a sandbox; its init containers start again in it."""
        record = self._pods.setdefault(pod.uid, _PodRecord(pod))
        record.has_sandbox = True
        record.sandboxes += 1
        for container in pod.init_containers:
            record.runs.pop(container.name, None)

    def end_sandbox(self, pod_uid: PodUID) -> None:
        """Stop a pod's sandbox; none of its containers runs any more."""
        if pod_uid in self._pods:
            self._pods[pod_uid].has_sandbox = False

    # Runs

    async def start(self, pod: Pod, container: Container, options: DeviceRunOptions) -> None:
        """Start a container; an attempt that reached the runtime is on record, whether or not it started.

        Raises:
            ContainerStartError: the runtime could not start it.
            HostError: this machine cannot run containers.
        """
        record = self._pods.setdefault(pod.uid, _PodRecord(pod))
        attempt = record.attempts.get(container.name, 0)
        run = ContainerRecord(container.name, attempt, {}, options, self._clock.now())
        try:
            run = replace(run, env=program_of(pod, container, options.envs).env)
            handle = await self._runtime.start(pod, container, options, attempt)
        except ContainerStartError as error:
            if error.failure is StartFailure.RUN:
                self._add(record, _never_started(run, error))
                self._notify(pod.uid)
            raise
        self._add(record, run)
        record.handles[container.name] = handle
        self._observe(ContainerStarted(self._node, pod.key, container.name, attempt))
        wait = self._group.create_task(self._await_end(record, run, handle), name=f"{pod.key}/{container.name}")
        self._waits.add(wait)
        wait.add_done_callback(self._waits.discard)
        self._notify(pod.uid)

    async def stop(self, pod_uid: PodUID, container: str, grace_s: float) -> None:
        """End a container and wait for its end; nothing happens to one that does not run."""
        record = self._pods.get(pod_uid)
        run = self.run_of(pod_uid, container)
        if record is None or run is None or not run.is_running:
            return
        self._ended(record, run, await record.handles[container].stop(grace_s))

    def catch_up(self, pod_uid: PodUID) -> None:
        """A kubelet begins to look after a pod, or to learn of it again: what ended meanwhile is reported.

        The ends of a pod that no kubelet takes back are not reported, as its status never has them.
        """
        record = self._pods.get(pod_uid)
        if record is not None:
            ends, record.unseen_ends = record.unseen_ends, []
            for end in ends:
                self._observe(end)

    async def relisted(self, pod_uid: PodUID) -> None:
        """Wait until a kubelet knows what runs of a pod; what ended while the runtime was silent is reported then."""
        if self.cri.of_lists:
            await self.cri.until_lists()
            self.catch_up(pod_uid)

    def remove(self, pod_uid: PodUID) -> None:
        """Forget the ended containers of a pod."""
        self._pods.pop(pod_uid, None)

    async def reboot(self) -> None:
        """End everything that runs at once, and all sandboxes, as a power cut does; the runtime is a new one then."""
        self.cri.restart()
        for record in self._pods.values():
            record.has_sandbox = False
        await self._runtime.reboot()
        for record in self._pods.values():
            for runs in record.runs.values():
                self._ended(record, runs[-1], ExitStatus.power_cut())

    async def close(self) -> None:
        """End everything that runs, for good; may be called twice."""
        await self._runtime.reboot()
        waits = list(self._waits)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    async def _await_end(self, record: _PodRecord, run: ContainerRecord, handle: ContainerHandle) -> None:
        about, failed = f"{record.pod.key}/{run.name}", partial(self._failed, record.pod)
        # Of a task whose end it does not know, containerd says the same as after a power cut.
        status = ExitStatus.power_cut()
        with _WAIT(about, failed):
            status = await handle.wait()
        with _WAIT(about, failed):
            self._ended(record, run, status)

    def _failed(self, pod: Pod, error: str) -> None:
        if self.on_failure is not None:
            self.on_failure(pod, error)

    def _add(self, record: _PodRecord, run: ContainerRecord) -> None:
        record.attempts[run.name] = run.attempt + 1
        record.runs[run.name] = [*record.runs.get(run.name, ()), run][-_KEPT:]

    def _ended(self, record: _PodRecord, run: ContainerRecord, status: ExitStatus) -> None:
        """Record an end once; the task that waits for it and the one that caused it both call this."""
        runs = record.runs.get(run.name, [])
        for place, known in enumerate(runs):
            if known.attempt == run.attempt and known.is_running:
                runs[place] = replace(known, exit=status, finished_at=self._clock.now())
                reason = status.reason.value
                end = ContainerExited(self._node, record.pod.key, run.name, run.attempt, status.code, reason)
                if self.on_change is None or self.cri.of_lists:
                    record.unseen_ends.append(end)
                else:
                    self._observe(end)
                self._notify(record.pod.uid)

    def _notify(self, pod_uid: PodUID) -> None:
        if self.on_change is not None:
            self.on_change(pod_uid)


def _never_started(run: ContainerRecord, error: ContainerStartError) -> ContainerRecord:
    status = ExitStatus(START_FAILED_EXIT_CODE, ExitReason.START_ERROR, error.message)
    return replace(run, exit=status, finished_at=run.started_at)
