"""The world that a story is played in: what a backend offers.

A backend is one world for one story. The runner enters it, performs the steps' actions in order, and looks at it
between them; it never reaches behind this protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from ..story.part import Action, Capability
from ..trace.snapshot import Snapshot
from ..trace.trace import Trace


class Patience(Protocol):
    """The time that one expectation has, measured by its backend."""

    async def wait(self) -> bool:
        """Wait for something to look at.

        Returns:
            True when the world may have changed since the last observation; the backend may let its node time pass
            meanwhile. False when the time is used up.
        """
        ...

    @property
    def is_starved(self) -> bool:
        """Whether it is used up on a machine so busy that the processes had little of it; then that says nothing."""
        ...


class Backend(Protocol):
    """One world for one story, an async context manager.

    Entering brings nodes and plugins up (processes started; nothing need be registered yet) or, where it fails, leaves
    nothing behind. Leaving ends every process and removes every file, also after an error or a cancellation, and never
    waits without a limit. After a failure (`verdict.is_failure`) it leaves `logs` behind.

    Raises:
        InputError: What the user gave cannot be used: a folder, a command, a name that the world does not have.
        HostError: The machine could not do what was needed.
        PluginError: A plugin broke the kubelet's contract so that the story cannot go on.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this backend can do; known before it is entered."""
        ...

    @property
    def remedies(self) -> Mapping[Capability, str]:
        """What only this machine keeps the backend from doing -> what the machine lacks and how to fix it, one line."""
        ...

    @property
    def trace(self) -> Trace:
        """The record of this world; the runner appends its own events."""
        ...

    @property
    def kept(self) -> Path | None:
        """The folder that this world leaves behind, None where it leaves none."""
        ...

    @property
    def places(self) -> Mapping[str, str]:
        """What a user can look at while the world is there -> where it is: folders, sockets, or a command for it."""
        ...

    @property
    def logs(self) -> tuple[Path, ...]:
        """The files that have what plugins and kubelets wrote, once a world with a failure has been left."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

    async def perform(self, action: Action) -> None:
        """Do one step; returns when the action is done, not when its consequences are."""
        ...

    async def observe(self) -> Snapshot:
        """What the world looks like now; changes nothing."""
        ...

    def patience(self, within_s: float) -> Patience:
        """Begin to wait for at most `within_s` seconds, as this backend counts them."""
        ...
