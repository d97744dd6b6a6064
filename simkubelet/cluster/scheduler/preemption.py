"""Which pods must go for one that matters more.

Source: pkg/scheduler/framework/preemption/preemption.go; plugins/defaultpreemption/default_preemption.go (kubernetes
v1.34.4), without disruption budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from .cluster_state import NodeInfo
from .pod_info import PodInfo
from .refusals import Refusal

__all__ = ["Candidate", "Dismissal", "Preemption", "best_candidate"]

_NOBODY_TO_PREEMPT: Final = "No preemption victims found for incoming pod"

Fits = Callable[[NodeInfo, Collection[PodInfo]], Refusal | None]
"""Asks the filters about a node, from which some pods are thought away."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that a pod would fit without some others, the most important first."""

    node: str
    victims: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class Dismissal:
    """Why preempting on a node would not help."""

    reasons: tuple[str, ...]


class Preemption:
    """The search for victims of one pod."""

    def __init__(self, pod: PodInfo, fits: Fits) -> None:
        self._pod = pod
        self._fits = fits

    def on(self, node: NodeInfo) -> Candidate | Dismissal:
        """The fewest and least important pods of a node that must go.

        Source: ``SelectVictimsOnNode``.
        """
        lesser = [other for other in node.pods.values() if other.priority < self._pod.priority]
        if not lesser:
            return Dismissal((_NOBODY_TO_PREEMPT,))
        refusal = self._fits(node, lesser)
        if refusal is not None:
            return Dismissal(refusal.reasons)
        gone = sorted(lesser, key=_unimportance)
        victims = []
        for other in tuple(gone):
            gone.remove(other)
            if self._fits(node, gone) is not None:
                gone.append(other)
                victims.append(other)
        return Candidate(node.name, tuple(victims))


def best_candidate(candidates: Iterable[Candidate]) -> Candidate:
    """The node where preempting hurts least; the first by name among equals.

    Source: ``pickOneNodeForPreemption``.
    """

    def harm(candidate: Candidate) -> tuple[int, int, int]:
        priorities = [victim.priority + 2**31 for victim in candidate.victims]
        return priorities[0], sum(priorities), len(priorities)

    ordered = sorted(candidates, key=lambda candidate: candidate.node)
    least = min(harm(candidate) for candidate in ordered)
    return max((each for each in ordered if harm(each) == least), key=_earliest_start)


def _earliest_start(candidate: Candidate) -> str:
    most = candidate.victims[0].priority
    return min(victim.start_time for victim in candidate.victims if victim.priority == most)


def _unimportance(pod: PodInfo) -> tuple[int, str]:
    return -pod.priority, pod.start_time
