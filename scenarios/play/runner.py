"""Plays a story in a backend's world: steps in order, expectations polled with the backend's patience.

The runner owns no task and reads no node clock; all waiting is the backend's.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from simkubelet.model.errors import HostError, SimkubeletError

from ..backends.backend import Backend
from ..backends.world.logs import last_lines
from ..evaluation.diagnosis import diagnoses
from ..evaluation.evaluation import evaluate
from ..evaluation.mismatch import Mismatch
from ..evaluation.timeline import timeline
from ..evaluation.verdict import Failure, Outcome, UnmetError, Verdict, from_error, single_errors
from ..story.document import Document, shown_path
from ..story.expectations import Expectation
from ..story.model import Step
from ..story.part import format_duration
from ..trace.events import ExpectationFailed, ExpectationMet, StepStarted

TOO_BUSY: Final = "the machine was too busy meanwhile to say why"
"""In the reason of a story that is UNKNOWN because the machine was."""
_NOTABLY_LONGER: Final = 1.2
_PULSE_S: Final = 0.5
_STANDSTILL_S: Final = 2.0
"""Plugins usually wait five seconds for a kubelet's answer, and one of these may not be the only one meanwhile."""
Progress = Callable[[str], None]
"""Called with the title of each step as it begins."""
Afterwards = Callable[[Backend], Awaitable[None]]
"""Called with the backend after a successful story, before teardown."""


AtFailure = Callable[[Backend, str], Awaitable[None]]
"""Given the world of a story that fails, and why, before it is left."""


async def no_look(backend: Backend, reason: str) -> None:
    """The world is left at once."""


async def nothing(backend: Backend) -> None:
    """The world is left at once."""


async def play(
    document: Document,
    backend: Backend,
    progress: Progress = lambda title: None,
    afterwards: Afterwards = nothing,
    timeout_s: float | None = None,
    at_failure: AtFailure = no_look,
) -> Verdict:
    """Play a story from its first step to its last, or to the first expectation that is not met.

    Args:
        document: The story.
        backend: A world made for this story and not yet entered; it is left in any case.
        progress: Called with the title of each step as it begins.
        afterwards: Awaited at the end of a story that went well.
        timeout_s: Real time that there is for the steps and `afterwards`; None for as long as they take. A story that
            needs more is unknown: each wait of a story is bounded, so the machine is too slow for this time.
        at_failure: Awaited where a step fails. A world that fails by itself, as by a plugin that ends before it
            registers, is left at once.
    """
    began = time.monotonic()
    name = document.scenario.name
    if not document.scenario.fits:
        version, condition = document.scenario.nodes[0].kubernetes, document.scenario.kubernetes
        return Verdict(name, Outcome.SKIPPED, 0.0, f"it is about Kubernetes {condition}, not {version}")
    if missing := document.scenario.needed - backend.capabilities:
        remedies = [backend.remedies[one] for one in sorted(missing) if one in backend.remedies]
        who = "this machine" if len(remedies) == len(missing) else "the backend"
        reason = f"{who} cannot {', '.join(sorted(missing))}"
        return Verdict(name, Outcome.SKIPPED, 0.0, reason, remedies=tuple(remedies))
    run = _Run(document, backend, progress)
    pulse = _Pulse()
    try:
        async with backend:
            try:
                pulse.start()
                async with _limited(timeout_s):
                    await run.steps()
                    await afterwards(backend)
            except SimkubeletError as error:
                pulse.stop()
                run.end = len(backend.trace)
                await at_failure(backend, str(error))
                raise
            finally:
                pulse.stop()
                run.end = run.end or len(backend.trace)
    except Exception as error:
        # What failed while everything was ended must not hide that the user asked for the end.
        _check_not_cancelled(error)
        outcome, reason = from_error(error)
        if outcome is Outcome.INVALID and pulse.longest_s >= _STANDSTILL_S:
            outcome, reason = Outcome.UNKNOWN, _starved(reason)
        failures = (leaf.failure for leaf in single_errors(error) if isinstance(leaf, UnmetError))
        failure = next(failures, None) or run.interrupted()
        log_ends = {log: last_lines(log) for log in backend.logs}
        duration_s = time.monotonic() - began
        return Verdict(name, outcome, duration_s, reason, failure, logs=backend.logs, log_ends=log_ends)
    _check_not_cancelled(None)
    return Verdict(name, Outcome.VALID, time.monotonic() - began)


def _check_not_cancelled(error: Exception | None) -> None:
    """Check that the run goes on.

    Raises:
        CancelledError: It is to end, and what took notice of that in this story has kept it to itself.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error


class _Pulse:
    """Measures how long this process could not run, and with it the kubelets: twice a second, from start to stop.

    Attributes:
        longest_s: The longest such time.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        self._next = self._loop.call_later(_PULSE_S, self._beat, self._loop.time() + _PULSE_S)

    def stop(self) -> None:
        """Measure no more."""
        if self._next is not None:
            self._next.cancel()

    def _beat(self, due: float) -> None:
        self.longest_s = max(self.longest_s, self._loop.time() - due)
        self.start()


@contextlib.asynccontextmanager
async def _limited(timeout_s: float | None) -> AsyncIterator[None]:
    """A limit for what is done inside.

    Raises:
        HostError: It takes longer.
    """
    try:
        async with asyncio.timeout(timeout_s) as limit:
            yield
    except TimeoutError:
        if timeout_s is None or not limit.expired():
            raise
        raise HostError(f"the story takes longer than {format_duration(timeout_s)} (--timeout)") from None


@dataclass(slots=True)
class _Run:
    """One story under way.

    Attributes:
        index: The step it has come to, -1 while the world comes up.
        end: The length of the trace at its end, before the world was left.
    """

    document: Document
    backend: Backend
    progress: Progress
    index: int = -1
    end: int | None = None

    async def steps(self) -> None:
        """Play all steps.

        Raises:
            UnmetError: An expectation is not met.
        """
        for step in self.document.scenario.steps:
            self.index += 1
            if not self.document.scenario.has_step(step):
                continue
            self.backend.trace.append(StepStarted(self.index + 1, step.title))
            self.progress(step.title)
            if step.action is not None:
                await self.backend.perform(step.action)
            elif step.expect is not None:
                await self._expect(step, step.expect)

    async def _expect(self, step: Step, expectation: Expectation) -> None:
        """Wait until the expectation is met and has held.

        Raises:
            UnmetError: It was not; with the actual values at last.
            HostError: It was not, on a machine too busy to tell why.
        """
        began = time.monotonic()
        patience = self.backend.patience(expectation.within)
        while mismatches := await self._look(expectation):
            if not await patience.wait():
                took_s = time.monotonic() - began
                unmet = await self._unmet(step, expectation, mismatches, _waited(took_s, expectation.within))
                raise HostError(_starved(str(unmet))) if patience.is_starved else unmet
        if expectation.holds:
            began = time.monotonic()
            patience = self.backend.patience(expectation.holds)
            while await patience.wait():
                if mismatches := await self._look(expectation):
                    held = f"held for {time.monotonic() - began:.2f} s (holds: {format_duration(expectation.holds)})"
                    raise await self._unmet(step, expectation, mismatches, held)
        self.backend.trace.append(ExpectationMet(self.index + 1))

    async def _unmet(
        self, step: Step, expectation: Expectation, mismatches: tuple[Mismatch, ...], waited: str
    ) -> UnmetError:
        lines = tuple(f"{shown_path(one.path)}: expected {one.expected}; actual {one.actual}" for one in mismatches)
        self.backend.trace.append(ExpectationFailed(self.index + 1, lines))
        location = self.document.location("steps", self.index, "expect", *mismatches[0].path)
        entries = self.backend.trace[:]
        plugins = (await self.backend.observe()).plugins
        failure = Failure(
            location,
            step.title,
            tuple(Mismatch(("expect", *found.path), found.expected, found.actual) for found in mismatches),
            timeline(entries, expectation.subject),
            waited,
            self.index + 1,
            len(self.document.scenario.steps),
            diagnoses(entries, plugins, expectation.subject),
        )
        return UnmetError("; ".join((f"{step.title}: {lines[0]}", *failure.diagnoses[:1])), failure)

    async def _look(self, expectation: Expectation) -> tuple[Mismatch, ...]:
        return evaluate(expectation, await self.backend.observe(), self.backend.trace)

    def interrupted(self) -> Failure:
        """Where an error ended the story."""
        latest = timeline(self.backend.trace[: self.end])
        total = len(self.document.scenario.steps)
        if self.index < 0:
            return Failure(self.document.location("plugins"), "start", (), latest, total=total)
        step, location = self.document.scenario.steps[self.index], self.document.location("steps", self.index)
        return Failure(location, step.title, (), latest, number=self.index + 1, total=total)


def _starved(reason: str) -> str:
    return f"{reason}; {TOO_BUSY}: play fewer stories at a time, with -n"


def _waited(real_s: float, within_s: float) -> str:
    """How long was waited for an expectation, and why that is longer than it says."""
    is_busy = real_s > _NOTABLY_LONGER * within_s
    why = "; longer, as this machine is busy" if is_busy else ""
    return f"waited {real_s:.2f} s (within: {format_duration(within_s)}{why})"
