"""A campaign under way: batches of stories go to the workers, what comes back goes into the file at once.

Only batches are under way, never their results: whatever ends this process, a story is in the file or is played again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from simkubelet.model.errors import HostError, SimkubeletError

from ..backends.world.folders import CAMPAIGN_PREFIX, default_place, new_folder, remove_left
from .player import Played, play_batch
from .results import Results
from .shrinker import Shrunk, shrink
from .workers import Workers

Play: TypeAlias = Callable[[int, Sequence[int], Path | None, bool], list[Played]]
"""Plays stories of a seed by their numbers, in a folder, in a process that does nothing else or in one of dask."""
Shrink: TypeAlias = Callable[[int, int, str, Path | None, bool], Shrunk]
"""Finds the smallest story for a seed, the number of one that failed, and its signature; the rest as above."""

_BATCH: Final = 40
_FIRST_BATCH: Final = 5
_AHEAD: Final = 2
"""Batches for each worker that are handed out."""
_LOOK_S: Final = 0.5


@dataclass(slots=True)
class Campaign:
    """Plays stories until there are enough of them, or until the time is up.

    Args:
        results: Has what was played before, and takes what is played.
        workers: Who plays.
        progress: Called from time to time, and with each new finding.
        most: How many stories the campaign has; None for no end.
        until: When no further batch begins, in seconds of the monotonic clock; None for never.
        play: Plays a batch in a worker.
        shrink: Finds the smallest story of a failure in a worker.
    """

    results: Results
    workers: Workers
    progress: Callable[[], None]
    most: int | None = None
    until: float | None = None
    play: Play = play_batch
    shrink: Shrink = shrink
    _batches: set[Future[list[Played]]] = field(default_factory=set)
    _shrinking: dict[Future[Shrunk], str] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Play to the end.

        Raises:
            HostError: A worker was killed or cannot play, or the file cannot be written; the file has all that came
                before.
        """
        self._known = {one.signature for one in self.results.findings() if one.shrunk is not None}
        with _folder(self.workers.is_local) as folder:
            try:
                self._play(folder)
            except SimkubeletError:
                raise
            except Exception as error:
                # Whatever ends a batch: dask's errors have no class that is known here.
                raise HostError(
                    f"{_reason(error)}; the results are kept: run the same command again to go on"
                ) from None
            finally:
                # Before their folder goes.
                self.workers.end()

    def _play(self, folder: Path | None) -> None:
        numbers = self.results.missing(self.most)
        sizes = itertools.chain(itertools.repeat(_FIRST_BATCH, self.workers.count), itertools.repeat(_BATCH))
        while True:
            if not self._is_over():
                self._shrink_new(folder)
            while not self._is_over() and len(self._batches) < _AHEAD * self.workers.count:
                batch = list(itertools.islice(numbers, next(sizes)))
                if not batch:
                    break
                self._batches.add(self._submit(self.play, self.results.seed, batch, folder, self.workers.is_local))
            if not self._batches and (not self._shrinking or self._is_over()):
                # A finding whose smallest story is not found yet is looked at again by the next run.
                return
            under_way: list[Future[Any]] = [*self._batches, *self._shrinking]
            done, _ = wait(under_way, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
            for batch_done in done & self._batches:
                self._batches.remove(batch_done)
                self.results.add(batch_done.result())
            for shrunk in done & self._shrinking.keys():
                self.results.add_finding(self._shrinking.pop(shrunk), shrunk.result())
            if self._is_over():
                self._give_up_waiting()
            self.progress()

    def _submit(self, function: Callable[..., object], *values: object) -> Future[Any]:
        return self.workers.executor.submit(function, *values)

    def _shrink_new(self, folder: Path | None) -> None:
        """Look for the smallest story of each finding; half of the workers go on with other stories meanwhile."""
        for finding in self.results.findings():
            if len(self._shrinking) > self.workers.count // 2:
                return
            if finding.signature not in self._known:
                self._known.add(finding.signature)
                values = (self.results.seed, finding.number, finding.signature, folder, self.workers.is_local)
                self._shrinking[self._submit(self.shrink, *values)] = finding.signature

    def _is_over(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until

    def _give_up_waiting(self) -> None:
        """Take back what no worker has begun."""
        self._batches = {batch for batch in self._batches if not batch.cancel()}
        self._shrinking = {task: signature for task, signature in self._shrinking.items() if not task.cancel()}


def _reason(error: Exception) -> str:
    """Why no batch can be played any more."""
    if isinstance(error, BrokenProcessPool):
        return "a worker was killed"
    if isinstance(error, CancelledError):
        return "the scheduler is gone"
    return f"the workers cannot play: {type(error).__name__}: {error}".partition("\n")[0]


@contextmanager
def _folder(is_local: bool) -> Iterator[Path | None]:
    """Where the workers make the stories' folders; each machine of a cluster has its own place for such.

    The next campaign removes those that killed ones have left.
    """
    if not is_local:
        yield None
        return
    place = default_place()
    remove_left(place, CAMPAIGN_PREFIX)
    folder = new_folder(place, CAMPAIGN_PREFIX)
    try:
        yield folder.path
    finally:
        with suppress(HostError):
            folder.remove()
