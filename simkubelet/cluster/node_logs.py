"""What containers have written, as the kubelets of a cluster give it to the API server.

A file has its program's bytes as they came, so the date of a line is that of the file's last write; containers that are
book-keeping have no output.

Source: pkg/kubelet/kubelet_pods.go, ``validateContainerLogStatus`` (kubernetes v1.34.4); cri-client/pkg/logs/logs.go,
``ReadLogs`` (v0.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ..apis.inotify import Mask, PathWatch
from ..golang.text import quoted
from ..kubelet.kubelet import Kubelet
from ..runtime.process_container import container_log
from .api.endpoints.request import LogOptions
from .api.errors import StatusError
from .objects.nodes import KubeletEndpoint
from .objects.objects import JSON

__all__ = ["NodeLogs"]

_LOOK_AGAIN_S: Final = 1.0
_NO_LIMIT: Final = 1 << 62


class NodeLogs:
    """The output of all containers of a cluster; an `PodLogs` of the API server.

    Args:
        kubelets: node -> its kubelet.
        now: the cluster's date.
    """

    def __init__(self, kubelets: Mapping[str, Kubelet], now: Callable[[], datetime]) -> None:
        self._kubelets = kubelets
        self._now = now

    async def read(self, pod: JSON, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """See `PodLogs`."""
        kubelet = self._kubelets.get(pod["spec"]["nodeName"])
        if kubelet is None or not kubelet.is_running:
            raise StatusError(500, "", _refused(pod, container))
        attempt = _attempt(pod, container, is_previous=options.previous)
        log = container_log(kubelet.container_logs, _place(pod), container, attempt)
        there = _from(log, 0)
        text = _chosen(there, log, options, self._now())
        left = _NO_LIMIT if options.limit_bytes is None else options.limit_bytes - len(text)
        # Also where there is nothing yet: a client that follows learns that it has come in.
        yield text
        at = len(there)
        while options.follow and left > 0:
            is_running = _runs(kubelet, pod, container, attempt)
            new = _from(log, at)
            at += len(new)
            text = (_dated(new, log) if options.timestamps else new)[:left]
            left -= len(text)
            if text:
                yield text
            if not is_running:
                return
            await _written(log)


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


def _chosen(text: bytes, log: Path, options: LogOptions, now: datetime) -> bytes:
    """The part of what is there that is asked for."""
    if text and not _is_recent(log, options, now):
        return b""
    if options.tail_lines is not None:
        lines = text.splitlines(keepends=True)
        text = b"".join(lines[max(len(lines) - options.tail_lines, 0) :])
    if options.timestamps:
        text = _dated(text, log)
    return text if options.limit_bytes is None else text[: options.limit_bytes]


def _is_recent(log: Path, options: LogOptions, now: datetime) -> bool:
    written = datetime.fromtimestamp(log.stat().st_mtime, UTC)
    if options.since_seconds is not None:
        return (now - written).total_seconds() <= options.since_seconds
    return options.since_time is None or written >= datetime.fromisoformat(options.since_time)


def _dated(text: bytes, log: Path) -> bytes:
    if not text:
        return text
    written = datetime.fromtimestamp(log.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode()
    return b"".join(written + line for line in text.splitlines(keepends=True))


def _from(log: Path, begin: int) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(begin)
            return file.read()
    except FileNotFoundError:
        return b""


async def _written(log: Path) -> None:
    """Wait until a file is written, a second at most, as the end of a container is not notified."""
    with PathWatch() as watch:
        try:
            watch.add(log, Mask.MODIFY)
        except FileNotFoundError:
            await asyncio.sleep(_LOOK_AGAIN_S)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_AGAIN_S):
                await anext(watch)
