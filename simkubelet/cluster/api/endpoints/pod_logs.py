"""What the API server needs to know of containers' output: somebody who has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from ...objects.objects import JSON

__all__ = ["LogOptions", "PodLogs"]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a container's output is asked for.

    Attributes:
        tail_lines: how many of the last lines; all where it is None.
        since_time: lines from this RFC 3339 date on.
        limit_bytes: at most so many bytes.
        timestamps: each line begins with its date.
        previous: of the container's life before this one.
        follow: what comes later too, until the container ends.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_time: str | None = None
    since_seconds: int | None = None
    limit_bytes: int | None = None


class PodLogs(Protocol):
    """Where a cluster's container output is kept."""

    def read(self, pod: JSON, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The output of one container of a pod that a node has, in pieces of any size.

        Raises:
            StatusError: while the first piece is waited for: the kubelet's refusal.
        """
