"""One container that runs or has run as processes: its files, its end, and what it left for its status."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._internal.bounds import BoundProgram
from .._internal.change import first_done
from .._internal.file_tree import folder_without_links, open_without_links, remove_folder
from .._internal.piped_log import PipedLog
from ..model.clock import Clock
from ..model.pod import Container, Pod, PodUID
from .container_runtime import ContainerStartError, ExitStatus, StartFailure
from .program import Program
from .translated_files import TranslatedFiles

__all__ = ["ContainerFiles", "ProcessContainer", "container_log", "remove_logs"]

_MESSAGE_MAX_BYTES: Final = 4096
_LOG_MESSAGE_MAX_BYTES: Final = 2048
_LOG_MESSAGE_MAX_LINES: Final = 80
_REAL_GRACE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """The files of one container: what it writes, and the message that it leaves for its status."""

    log: Path
    message: Path

    @classmethod
    def create(cls, folder: Path, pod: Pod, container: Container, attempt: int) -> ContainerFiles:
        """Make the files of one run, empty.

        Raises:
            ContainerStartError: something is in their way, as a link.

        Source: kuberuntime/kuberuntime_container.go, ``generateContainerConfig`` (kubernetes v1.34.4).
        """
        log = container_log(folder, f"{pod.namespace}_{pod.name}_{pod.uid}", container.name, attempt)
        files = cls(log, log.with_suffix(".termination-log"))
        try:
            for file in (files.log, files.message):
                open_without_links(file, "wb", make=True).close()
            _remove_before(log.parent, attempt - 1)
        except OSError as error:
            raise files._refusal(error) from None
        return files

    def open_log(self) -> PipedLog:
        """Open the log for what the container writes.

        Raises:
            ContainerStartError: it cannot be opened.
        """
        try:
            return PipedLog.open(self.log)
        except OSError as error:
            raise self._refusal(error) from None

    def end_of_log(self) -> str:
        """As much of the end of the log as a container's status takes, or what keeps it from being read."""
        try:
            return _tail(self.log)
        except OSError as error:
            return f"Error on reading termination message from logs: {_words(error)}"

    def _refusal(self, error: OSError) -> ContainerStartError:
        words = f"create container log directory for container {self.log.parent.name} failed: {_words(error)}"
        return ContainerStartError(StartFailure.CREATE, words)


def container_log(folder: Path, pod: str, container: str, attempt: int) -> Path:
    """Where one run of a container writes, below a folder for all; `pod` is ``<namespace>_<pod>_<uid>``."""
    return folder / pod / container / f"{attempt}.log"


def remove_logs(folder: Path, kept: Collection[PodUID]) -> None:
    """Remove what containers of all other pods have left, below a folder for all.

    Source: kuberuntime/kuberuntime_gc.go, ``evictPodLogsDirectories`` (kubernetes v1.34.4).
    """
    with contextlib.suppress(OSError), folder_without_links(folder) as here:
        for name in os.listdir(here):  # noqa: PTH208  # by its descriptor
            if name.rpartition("_")[2] not in kept:
                with contextlib.suppress(OSError):
                    remove_folder(name, here)


def _remove_before(folder: Path, attempt: int) -> None:
    """Remove what runs of a container have left before the one that ended last.

    Source: kuberuntime/kuberuntime_gc.go, ``evictContainers`` (kubernetes v1.34.4).
    """
    with folder_without_links(folder) as here:
        for name in os.listdir(here):  # noqa: PTH208  # by its descriptor
            number = name.partition(".")[0]
            if number.isdecimal() and int(number) < attempt:
                os.unlink(name, dir_fd=here)


class ProcessContainer:
    """A container that runs or has run; `log` is its output, `limits` what it asked for and did not get."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        init_pid: int,
        program: Program,
        files: ContainerFiles,
        output: PipedLog,
        limits: Sequence[str],
        clock: Clock,
        bound: BoundProgram,
        network: object = None,
        root: TranslatedFiles | None = None,
    ) -> None:
        self.log = files.log
        self.limits = tuple(limits)
        self._process = process
        self._init_pid = init_pid
        self._program = program
        self._files = files
        self._output = output
        self._clock = clock
        self._bound = bound
        # Of the pod; it is there as long as who has it.
        self._network = network
        self._root = root
        self._is_cut = False

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> ExitStatus:
        """Wait until the container has ended and no process of it is left."""
        status = await self._process.wait()
        await self._output.close()
        await self._bound.ended()
        if self._root:
            await asyncio.to_thread(self._root.remove)
        if self._is_cut:
            return ExitStatus.power_cut()
        code = status if status >= 0 else 128 - status
        return ExitStatus.of(code, self._message(status), has_lost_memory=self._bound.has_lost_memory())

    async def stop(self, grace_s: float) -> ExitStatus:
        """Send SIGTERM to the program, SIGKILL to all after `grace_s` seconds of the clock, and wait for the end.

        As process 1 of its container the program gets SIGTERM only if it handles it, as on a real node. One that does
        is given some real seconds too, as it ends in real time even where the node's time leaps.
        """
        if grace_s > 0:
            real_s = 0.0
            if self._handles(signal.SIGTERM):
                real_s = min(grace_s, _REAL_GRACE_S)
                self._signal(signal.SIGTERM)
            grace = asyncio.gather(self._clock.sleep(grace_s), asyncio.sleep(real_s))
            await first_done(self._process.wait(), grace)
        self._signal(signal.SIGKILL)
        return await self.wait()

    async def cut(self) -> None:
        """End it as a power cut does, and return when nothing is left of it."""
        if self.is_running:
            self._is_cut = True
            self._signal(signal.SIGKILL)
        await self.wait()

    def _signal(self, number: signal.Signals) -> None:
        """Signal process 1 of the container; where it ends, the kernel or its supervisor ends the others too."""
        if self._init_pid == self._process.pid:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
            return
        try:
            handle = os.pidfd_open(self._init_pid)
        except ProcessLookupError:
            return
        try:
            # The id may be another's by now; a child of our own sandbox it is the container's for sure.
            if _of_process(self._init_pid, "PPid") == str(self._process.pid):
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        finally:
            os.close(handle)

    def _handles(self, number: signal.Signals) -> bool:
        caught = _of_process(self._init_pid, "SigCgt")
        return caught is not None and bool(int(caught, 16) >> (number - 1) & 1)

    def _message(self, status: int) -> str:
        """The message for the container's status.

        Source: kuberuntime/kuberuntime_container.go, ``getTerminationMessage`` and
        ``readLastStringFromContainerLogs`` (kubernetes v1.34.4).
        """
        try:
            message = _head(self._files.message)
        except FileNotFoundError:
            message = ""
        except OSError as error:
            return f"Error on reading termination log {self._files.message}: {_words(error)}"
        if message or status == 0 or not self._program.is_log_the_message:
            return message
        return self._files.end_of_log()


def _tail(log: Path) -> str:
    with open_without_links(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_MESSAGE_MAX_BYTES))
        lines: list[str] = file.read().decode(errors="replace").splitlines(keepends=True)
    return "".join(lines[-_LOG_MESSAGE_MAX_LINES:])


def _head(path: Path) -> str:
    with open_without_links(path, "rb") as file:
        return bytes(file.read(_MESSAGE_MAX_BYTES)).decode(errors="replace")


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _of_process(pid: int, field: str) -> str | None:
    """A field of a process's status file; None when there is no such process."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return value.strip()
    return None
