"""Which devices to prefer, by the two policies that NVIDIA's and Iluvatar's plugins have in common; pure.

The aligned policy finds the GPUs that fit best together. It does not look for the best set alone: it divides all
available GPUs into sets of the requested size (one set may stay short), takes the division with the highest sum of
scores, and of it the best set that holds every required GPU. So what is left for later containers fits together as
well. Among equals the first in the order of `available` wins.

The number of divisions grows quickly with the GPUs: 105 for 2 of 8, two million for 2 of 16. Branches that cannot beat
the best division so far are cut, which never changes the answer. Past `SEARCH_LIMIT` sets the best division so far
counts, at worst a greedy one that the search starts from; the original would go on.

The distributed policy spreads what is requested over the GPUs that have the fewest replicas in use. Among GPUs with
equally many in use the first in the order of `available` wins; the original takes any. A replica, a device that is
offered several times, has the id ``<id>::<number>``.

Source: gpuallocator/besteffort_policy.go (go-gpuallocator v0.6.0), where a short set can be the answer, which then
crashes; internal/rm/allocate.go, ``distributedAlloc``, and devices.go, ``AnnotatedID`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from itertools import combinations
from typing import Final, TypeAlias

from .framework import DeviceID

__all__ = [
    "SEARCH_LIMIT",
    "NotEnoughDevicesError",
    "aligned_set",
    "distributed_devices",
    "is_replica",
    "replica_id",
    "replicated_id",
]

SEARCH_LIMIT: Final = 50_000

Scores: TypeAlias = Sequence[Sequence[int]]
_Set: TypeAlias = tuple[int, ...]

_PADDING: Final = -1


def aligned_set(available: Sequence[int], required: Sequence[int], size: int, scores: Scores) -> _Set:
    """The GPUs to prefer, as positions in `scores`.

    Returns:
        `size` positions of `available`, all of `required` among them; empty when there is no such set.
    """
    available = tuple(dict.fromkeys(available))
    needed = frozenset(required)
    if size <= 0 or size > len(available) or len(required) > size or not needed <= set(available):
        return ()
    if size == 1:
        return next(((gpu,) for gpu in available if needed <= {gpu}), ())
    search = _Search(available, needed, size, scores)
    best: _Set = ()
    for candidate in search.best_division():
        if _PADDING in candidate or not needed <= set(candidate):
            continue
        if not best or search.score(candidate) > search.score(best):
            best = candidate
    return best


class _Search:
    """Depth first over the divisions, in the original's order; `visited` counts the sets looked at."""

    def __init__(self, available: Sequence[int], required: frozenset[int], size: int, scores: Scores) -> None:
        self._required = required
        self._size = size
        self._padding = -len(available) % size
        self._all = (*available, *[_PADDING] * self._padding)
        self._scores = scores
        self.visited = 0
        self._reach = {gpu: self._highest_share(gpu, available) for gpu in available} | {_PADDING: 0}
        self.score = cache(self._score)
        self._best = self._greedy_division(available)
        # One less than its score, so that of equal divisions the first that the search finds wins.
        self._best_score = sum(map(self.score, self._best)) - 1

    def best_division(self) -> tuple[_Set, ...]:
        """The division with the highest score that has a full set with all required GPUs."""
        self._divide(self._all, (), 0)
        return self._best

    def _divide(self, remaining: _Set, division: tuple[_Set, ...], score: int) -> None:
        if len(remaining) == self._size:
            if self._is_possible(remaining):
                self._complete((*division, remaining), score + self.score(remaining))
            return
        first, *others = remaining
        for rest in combinations(others, self._size - 1):
            if self._is_hopeless(remaining, score):
                return
            self.visited += 1
            candidate = (first, *rest)
            if self._is_possible(candidate):
                taken = set(candidate)
                left = tuple(gpu for gpu in others if gpu not in taken)
                self._divide(left, (*division, candidate), score + self.score(candidate))

    def _complete(self, division: tuple[_Set, ...], score: int) -> None:
        if score > self._best_score:
            self._best, self._best_score = division, score

    def _is_possible(self, candidate: _Set) -> bool:
        """Whether a set may be part of a division: the padding whole or not at all, the required GPUs likewise."""
        padding = candidate.count(_PADDING)
        if padding not in (0, self._padding):
            return False
        held = self._required.intersection(candidate)
        return not held or (held == self._required and padding == 0)

    def _is_hopeless(self, remaining: _Set, score: int) -> bool:
        # Each pair counts for both of its GPUs, so shares add up to twice the score.
        return (
            self.visited >= SEARCH_LIMIT
            or 2 * score + sum(self._reach[gpu] for gpu in remaining) <= 2 * self._best_score
        )

    def _greedy_division(self, available: Sequence[int]) -> tuple[_Set, ...]:
        """One set grown from the required GPUs by the GPU that adds most, the others in their order."""
        chosen = set(self._required)
        while len(chosen) < self._size:
            others = (gpu for gpu in available if gpu not in chosen)
            chosen.add(max(others, key=lambda gpu: sum(self._scores[gpu][other] for other in chosen)))
        rest = [gpu for gpu in self._all if gpu not in chosen]
        others_in_sets = (tuple(rest[start : start + self._size]) for start in range(0, len(rest), self._size))
        return (tuple(gpu for gpu in available if gpu in chosen), *others_in_sets)

    def _highest_share(self, gpu: int, available: Sequence[int]) -> int:
        pairs = sorted(max(self._scores[gpu][other], self._scores[other][gpu]) for other in available if other != gpu)
        return sum(pairs[1 - self._size :])

    def _score(self, candidate: _Set) -> int:
        gpus = [gpu for gpu in candidate if gpu != _PADDING]
        return sum(self._scores[gpu][other] for gpu, other in combinations(gpus, 2))


_SEPARATOR: Final = "::"


def replica_id(device_id: str, number: int) -> DeviceID:
    """The id of a device's replica; the first has number 0."""
    return DeviceID(f"{device_id}{_SEPARATOR}{number}")


def replicated_id(device_id: DeviceID) -> str:
    """The id of what is offered several times; any other id is its own."""
    return device_id.partition(_SEPARATOR)[0]


def is_replica(device_id: DeviceID) -> bool:
    """Whether an id is a replica's."""
    return _SEPARATOR in device_id


class NotEnoughDevicesError(Exception):
    """Fewer devices are available than are asked for; the message is the original's."""

    def __init__(self) -> None:
        super().__init__("not enough available devices to satisfy allocation")


def distributed_devices(
    devices: Collection[DeviceID], available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
) -> list[DeviceID]:
    """The required devices, then those picked one after the other; with too many required, all of them.

    Args:
        devices: all of the resource; ids that are not among them are passed over in `available`.
        available: what may be picked.
        required: what the answer begins with.
        size: how many are asked for.

    Raises:
        NotEnoughDevicesError: `available` has too few besides the required ones.
    """
    known, excluded = frozenset(devices), frozenset(required)
    candidates = [device for device in dict.fromkeys(available) if device in known and device not in excluded]
    needed = size - len(required)
    if len(candidates) < needed:
        raise NotEnoughDevicesError
    in_use = Counter(map(replicated_id, known))
    in_use.subtract(map(replicated_id, candidates))
    chosen = list(required)
    for _ in range(needed):
        pick = min(candidates, key=lambda device: in_use[replicated_id(device)])
        candidates.remove(pick)
        in_use[replicated_id(pick)] += 1
        chosen.append(pick)
    return chosen
