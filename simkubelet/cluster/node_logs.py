"""What containers have written, as the kubelets of a cluster give it to the API server.

A file has its program's bytes as they came, so the date of a line is that of the file's last write; containers that are
book-keeping have no output. Of a log that was rotated only the current file is read, and who follows it goes on in the
next one. A file is read in blocks, the next one when the last has been taken: a client that reads slowly costs a block.

Source: pkg/kubelet/kubelet_pods.go, ``validateContainerLogStatus`` (kubernetes v1.34.4); cri-client/pkg/logs/logs.go,
``ReadLogs``; pkg/logs/tail.go, ``findTailLineStartIndex`` (v0.34.4).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from ..apis.inotify import Mask, PathWatch
from ..golang.text import quoted
from ..kubelet.kubelet import Kubelet
from ..node_tree import open_without_links
from ..runtime.process_container import container_log
from .api.endpoints.request import LogOptions
from .api.errors import StatusError
from .objects.nodes import KubeletEndpoint
from .objects.objects import JSON

__all__ = ["NodeLogs"]

_LOOK_AGAIN_S: Final = 1.0
_NO_LIMIT: Final = 1 << 62
_BLOCK_BYTES: Final = 1 << 15
"""Of a file, read at once; with a date before each of its lines a block may become thirty times as long."""


class NodeLogs:
    """The output of all containers of a cluster; an `PodLogs` of the API server.

    Args:
        kubelets: node -> its kubelet.
        now: the cluster's date.
    """

    def __init__(self, kubelets: Mapping[str, Kubelet], now: Callable[[], datetime]) -> None:
        self._kubelets = kubelets
        self._now = now

    async def read(self, pod: JSON, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """See `PodLogs`."""
        kubelet = self._kubelets.get(pod["spec"]["nodeName"])
        if kubelet is None or not kubelet.is_running:
            raise StatusError(500, "", _refused(pod, container))
        attempt = _attempt(pod, container, is_previous=options.previous)
        with closing(_Log(container_log(kubelet.container_logs, _place(pod), container, attempt))) as log:
            end = await _begin(log, options, self._now())
            # Also where there is nothing yet: a client that follows learns that it has come in.
            yield b""
            left = _NO_LIMIT if options.limit_bytes is None else options.limit_bytes
            is_at_begin = True
            while left > 0:
                # What it writes before its end is read after this.
                is_running = options.follow and _runs(kubelet, pod, container, attempt)
                block = log.read_next() if options.follow else log.read(end - log.at)
                if not block:
                    if not is_running:
                        return
                    await log.written()
                    continue
                text = block
                if options.timestamps:
                    text = _dated(block, log.changed_at, is_at_begin=is_at_begin)
                    is_at_begin = block.endswith(b"\n")
                text = text[:left]
                left -= len(text)
                yield text
                # A client that takes all at once does not keep others waiting.
                await asyncio.sleep(0)


class _Log:
    """The file of a log as one reader has it open, at a place; it may not be there yet.

    Attributes:
        at: the place, in bytes.
    """

    def __init__(self, path: Path) -> None:
        self.at = 0
        self._path = path
        self._file: IO[bytes] | None = None
        self._open()

    @property
    def size(self) -> int:
        """Of the open file."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    @property
    def changed_at(self) -> datetime:
        """When the open file was written last."""
        seconds = 0.0 if self._file is None else os.fstat(self._file.fileno()).st_mtime
        return datetime.fromtimestamp(seconds, UTC)

    def read(self, most: int = _BLOCK_BYTES) -> bytes:
        """Go on in the open file; empty at its end."""
        block = self.block(self.at, most)
        self.at += len(block)
        return block

    def read_next(self) -> bytes:
        """Go on, at the end of a file that was rotated in the one that has come in its place."""
        # Nothing is added to a file after this.
        is_rotated = self._is_rotated()
        if (block := self.read()) or not is_rotated:
            return block
        self._open()
        return self.read()

    def block(self, begin: int, most: int) -> bytes:
        """What is at another place."""
        count = min(most, _BLOCK_BYTES)
        return os.pread(self._file.fileno(), count, begin) if self._file is not None and count > 0 else b""

    async def written(self) -> None:
        """Wait until there is more, a second at most, as the end of a container is not notified."""
        with PathWatch() as watch:
            try:
                watch.add(self._path.parent, Mask.MODIFY | Mask.CREATE)
            except FileNotFoundError:
                await asyncio.sleep(_LOOK_AGAIN_S)
                return
            if self.size > self.at or self._is_rotated():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_S):
                    await anext(watch)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> None:
        self.close()
        self.at = 0
        # Not there yet, or a link in its place.
        with suppress(OSError):
            self._file = open_without_links(self._path, "rb", 0)

    def _is_rotated(self) -> bool:
        """Whether another file is there than the open one."""
        try:
            return self._file is None or not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False


def _refused(pod: JSON, container: str) -> str:
    """What the API server says of a kubelet that does not answer."""
    metadata = pod["metadata"]
    host = f"{(pod.get('status') or {}).get('hostIP') or pod['spec']['nodeName']}:{KubeletEndpoint().port}"
    path = f"containerLogs/{metadata['namespace']}/{metadata['name']}/{container}"
    return f'Get "https://{host}/{path}": dial tcp {host}: connect: connection refused'


def _attempt(pod: JSON, container: str, *, is_previous: bool) -> int:
    """Which run of a container is meant.

    Raises:
        StatusError: there is none, or not yet.
    """
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    found = next((one for one in statuses if one["name"] == container), None)
    about = f"container {quoted(container)} in pod {quoted(name)}"
    if found is None:
        raise StatusError.bad_request(f"{about} is not available")
    state, before = found.get("state") or {}, (found.get("lastState") or {}).get("terminated")
    is_alive = "running" in state or "terminated" in state
    count = int(found.get("restartCount") or 0)
    if is_previous:
        if before is None:
            raise StatusError.bad_request(f"previous terminated {about} not found")
        return count - 1 if is_alive else count
    if is_alive or before is not None:
        return count
    if "waiting" in state:
        raise StatusError.bad_request(f"{about} is waiting to start: {state['waiting'].get('reason', '')}")
    raise StatusError.bad_request(f"{about} is waiting to start - no logs yet")


def _place(pod: JSON) -> str:
    metadata = pod["metadata"]
    uid = (metadata.get("annotations") or {}).get("kubernetes.io/config.mirror") or metadata["uid"]
    return f"{metadata['namespace']}_{metadata['name']}_{uid}"


def _runs(kubelet: Kubelet, pod: JSON, container: str, attempt: int) -> bool:
    run = kubelet.containers_of_uid(_place(pod).rpartition("_")[2]).get(container)
    return run is not None and run.attempt == attempt and run.is_running


async def _begin(log: _Log, options: LogOptions, now: datetime) -> int:
    """Go to the first byte that is asked for of what is there, and return its end."""
    end = log.size
    if end and not _is_recent(log, options, now):
        log.at = end
    elif options.tail_lines is not None:
        log.at = await _begin_of_last(log, options.tail_lines, end)
    return end


async def _begin_of_last(log: _Log, count: int, end: int) -> int:
    """Where the last lines begin; what comes after the last line's end is a line, too."""
    if count == 0:
        return end
    count += log.block(end - 1, 1) == b"\n" if end else 0
    while end:
        begin = max(end - _BLOCK_BYTES, 0)
        block = log.block(begin, end - begin)
        there = block.count(b"\n")
        if there >= count:
            at = len(block)
            for _ in range(count):
                at = block.rindex(b"\n", 0, at)
            return begin + at + 1
        count, end = count - there, begin
        await asyncio.sleep(0)
    return 0


def _is_recent(log: _Log, options: LogOptions, now: datetime) -> bool:
    if options.since_seconds is not None:
        return (now - log.changed_at).total_seconds() <= options.since_seconds
    return options.since_time is None or log.changed_at >= datetime.fromisoformat(options.since_time)


def _dated(text: bytes, date: datetime, *, is_at_begin: bool) -> bytes:
    """A text with a date before each line that begins in it."""
    prefix = date.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode()
    ended = text.endswith(b"\n")
    dated = text[: len(text) - ended].replace(b"\n", b"\n" + prefix) + b"\n" * ended
    return prefix + dated if is_at_begin else dated
