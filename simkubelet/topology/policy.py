"""The policies: which hints count, how they are merged, and whether the best one is good enough.

Source: topologymanager/policy.go ``filterProvidersHints``, policy_best_effort.go, policy_restricted.go,
policy_single_numa_node.go and numa_info.go (kubernetes v1.26.15 to v1.37.0, unchanged).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..model.config import PolicyName, TopologySettings
from .hint import NO_HINT, NumaMask, ProviderHints, TopologyHint, narrowness, nodes_in, numa_mask
from .merging import ResourceHints, best_hint
from .options import PolicyOptions

__all__ = ["Policy", "PolicyVerdict"]

_ANY_NODE = (TopologyHint(preferred=True),)
_NO_NODE = (TopologyHint(preferred=False),)


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """The merged hint, and whether the policy admits a pod or container with it."""

    hint: TopologyHint
    admits: bool


class Policy:
    """One kubelet's policy on its machine."""

    def __init__(self, settings: TopologySettings, options: PolicyOptions) -> None:
        self.name = PolicyName(settings.policy)
        self._machine = numa_mask(settings.numa_nodes)
        self._distances: Mapping[int, Sequence[int]] | None = None
        if options.prefers_closest and self.name is not PolicyName.SINGLE_NUMA_NODE:
            self._distances = settings.distances

    def merge(self, providers: Sequence[ProviderHints]) -> PolicyVerdict:
        """Merge what the providers propose.

        Raises:
            EndlessEnumerationError: the kubelet would form too many combinations.
        """
        if self.name is PolicyName.NONE:
            return PolicyVerdict(NO_HINT, admits=True)
        resources = list(_resource_hints(providers))
        if self.name is PolicyName.SINGLE_NUMA_NODE:
            resources = [tuple(filter(_is_single, hints)) for hints in resources]
        hint = best_hint(resources, self._machine, self._fitness)
        if self.name is PolicyName.SINGLE_NUMA_NODE and hint.nodes == self._machine:
            hint = TopologyHint(preferred=hint.preferred)
        return PolicyVerdict(hint, self.name is PolicyName.BEST_EFFORT or hint.preferred)

    def _fitness(self, mask: NumaMask) -> tuple[int, ...]:
        if self._distances is None:
            return narrowness(mask)
        # The kubelet compares averages; for masks of the same size the sums do.
        nodes = nodes_in(mask)
        return len(nodes), sum(self._distances[one][other] for one in nodes for other in nodes), mask


def _resource_hints(providers: Sequence[ProviderHints]) -> Iterator[ResourceHints]:
    for hints in providers:
        if not hints:
            yield _ANY_NODE
        for resource in sorted(hints):
            of_resource = hints[resource]
            yield _ANY_NODE if of_resource is None else of_resource or _NO_NODE


def _is_single(hint: TopologyHint) -> bool:
    return hint.preferred and (hint.nodes is None or hint.nodes.bit_count() == 1)
