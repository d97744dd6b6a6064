"""What the kubelet asks of a container runtime, the texts of its errors, and the runtime that only keeps books.

A runtime belongs to the node and not to a kubelet instance: containers continue while the kubelet restarts, and end at
once, without a signal, when the node reboots. The kubelet shows the texts of the errors as they are. The runtime whose
containers are processes is `process_runtime`.

Source: internal/cri/server/container_create.go and container_start.go (containerd v2.1.4),
libcontainer/process_linux.go and container_linux.go (runc v1.4.0), for these texts.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol
from weakref import WeakValueDictionary

from ..devices.pod_devices import DeviceRunOptions
from ..model.pod import Container, ContainerKind, Pod, PodUID

__all__ = [
    "START_FAILED_EXIT_CODE",
    "BookKeepingContainer",
    "BookKeepingRuntime",
    "ContainerHandle",
    "ContainerRuntime",
    "ContainerStartError",
    "ExitReason",
    "ExitStatus",
    "StartFailure",
    "init_error",
    "injection_error",
    "refused_container",
    "refused_spec",
]

START_FAILED_EXIT_CODE: Final = 128
_KILLED: Final = 128 + 9


class ExitReason(StrEnum):
    """Why a container is in the state terminated, as its status says it."""

    COMPLETED = "Completed"
    ERROR = "Error"
    OOM_KILLED = "OOMKilled"
    UNKNOWN = "Unknown"
    START_ERROR = "StartError"


class StartFailure(StrEnum):
    """Where the start of a container ended; the value is the reason of its state waiting.

    After `CREATE` there is no container. After `RUN` there is one that was never alive: its last state is terminated
    with `ExitReason.START_ERROR` and the exit code 128.
    """

    CREATE = "CreateContainerError"
    RUN = "RunContainerError"


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a container ended.

    `code` is 0 to 255, and 128 + n for a container that the signal n ended. `message` is what the container left for
    its status, empty for most.
    """

    code: int
    reason: ExitReason
    message: str = ""

    @classmethod
    def of(cls, code: int, message: str = "", *, has_lost_memory: bool = False) -> ExitStatus:
        """The status of a container that ended by itself or by a signal.

        With `has_lost_memory` the kernel has ended a process of it for want of memory, whatever `code` is.

        Source: internal/cri/server/events.go, ``handleEvent``, and container_status.go, ``toCRIContainerStatus``
        (containerd v2.1.4).
        """
        reason = ExitReason.COMPLETED if code == 0 else ExitReason.ERROR
        return cls(code, ExitReason.OOM_KILLED if has_lost_memory else reason, message)

    @classmethod
    def power_cut(cls) -> ExitStatus:
        """The status of a container that ran when the node went down.

        Source: internal/cri/server/restart.go, ``loadContainer`` (containerd v2.1.4).
        """
        return cls(255, ExitReason.UNKNOWN)


class ContainerStartError(Exception):
    """A container could not be started; `str()` of it is the runtime's message, as the kubelet shows it.

    The pod gets the event ``Failed`` with ``Error: `` and the message, and the start is tried again after a back-off.
    """

    def __init__(self, failure: StartFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message


class ContainerHandle(Protocol):
    """A container that was started once; a restart of it is another container with the next `attempt`."""

    async def wait(self) -> ExitStatus:
        """Wait until the container has ended; any number of callers, at any time."""

    async def stop(self, grace_s: float) -> ExitStatus:
        """Ask the container to end, kill it after `grace_s` seconds of the node's clock, and wait for its end."""


class ContainerRuntime(Protocol):
    """Starts containers on one node."""

    async def start(
        self, pod: Pod, container: Container, options: DeviceRunOptions, attempt: int = 0
    ) -> ContainerHandle:
        """Start a container and return once its program runs.

        Args:
            pod: The pod that it belongs to.
            container: Its specification.
            options: What the device plugins asked for.
            attempt: How often it was started before, for the names of its files.

        Raises:
            ContainerStartError: the container cannot be started as asked.
            HostError: this machine cannot run containers.
        """

    async def reboot(self) -> None:
        """End all containers at once, as a power cut does; their status is `ExitStatus.power_cut`."""


def refused_spec(words: str) -> ContainerStartError:
    """What the kubelet asked for cannot be put into an OCI spec."""
    container_id = secrets.token_hex(32)
    message = f'failed to generate container "{container_id}" spec: failed to generate spec: {words}'
    return ContainerStartError(StartFailure.CREATE, message)


def refused_container(words: str) -> ContainerStartError:
    """The spec stands, and what changes it further failed."""
    return ContainerStartError(StartFailure.CREATE, f"failed to create containerd container: {words}")


def injection_error(words: str) -> ContainerStartError:
    """CDI devices cannot be given to the container."""
    return refused_container(f"CDI device injection failed: {words}")


def init_error(words: str, about: str = "error during container init: ") -> ContainerStartError:
    """The container was created, and its first process could not become the program."""
    return ContainerStartError(
        StartFailure.RUN,
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
        f"unable to start container process: {about}{words}: unknown",
    )


class BookKeepingContainer:
    """A container that runs until `end`, `stop` or a reboot."""

    def __init__(self) -> None:
        self._end: asyncio.Future[ExitStatus] = asyncio.get_running_loop().create_future()

    @property
    def is_running(self) -> bool:
        return not self._end.done()

    def end(self, status: ExitStatus) -> None:
        """The container's process ends by itself; nothing happens when it has ended already."""
        if not self._end.done():
            self._end.set_result(status)

    async def wait(self) -> ExitStatus:
        """See `ContainerHandle`."""
        return await asyncio.shield(self._end)

    async def stop(self, grace_s: float) -> ExitStatus:
        """See `ContainerHandle`; without any grace it is killed."""
        self.end(ExitStatus.of(0 if grace_s > 0 else _KILLED))
        return await self.wait()


class BookKeepingRuntime:
    """The containers of one node that run without processes: they start, are asked to end, and end.

    An init container ends with 0 as soon as it has started. Every other one runs until it is asked to end; on SIGTERM
    it ends with 0 at once, as the pause image does.

    Source: build/pause/linux/pause.c, ``sigdown`` (kubernetes v1.34.4).
    """

    def __init__(self) -> None:
        # The record of a container holds its handle.
        self._containers: WeakValueDictionary[tuple[PodUID, str], BookKeepingContainer] = WeakValueDictionary()

    async def start(
        self, pod: Pod, container: Container, options: DeviceRunOptions, attempt: int = 0
    ) -> BookKeepingContainer:
        """See `ContainerRuntime`."""
        handle = BookKeepingContainer()
        if container.kind is ContainerKind.INIT:
            handle.end(ExitStatus.of(0))
        else:
            self._containers[pod.uid, container.name] = handle
        return handle

    def complete(self, pod_uid: PodUID, container: str, exit_code: int) -> bool:
        """End a container as if its process had; False when it does not run."""
        handle = self._containers.get((pod_uid, container))
        if handle is None or not handle.is_running:
            return False
        handle.end(ExitStatus.of(exit_code))
        return True

    async def reboot(self) -> None:
        """See `ContainerRuntime`."""
        for handle in list(self._containers.values()):
            handle.end(ExitStatus.power_cut())
