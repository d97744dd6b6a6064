"""The topology manager's policies and options: which hints count, how they are merged, which result is good enough.

A minor knows some options, and each value has its rules. A kubelet that refuses its options does not start, so every
error here is the user's; the texts are the kubelet's.

Source: topologymanager/policy.go ``filterProvidersHints``, policy_best_effort.go, policy_restricted.go,
policy_single_numa_node.go and numa_info.go (unchanged), policy_options.go ``NewPolicyOptions``, numa_info.go
``NewNUMAInfo`` and topology_manager.go ``NewManager``; cmd/kubelet/app/server.go ``run`` (kubernetes v1.26.15 to
v1.37.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..apis.integers import parse_int
from ..model.config import PolicyName, TopologySettings
from ..model.errors import InputError
from ..model.version import FEATURE_GATES, Difference, Version
from .hint import (
    NO_HINT,
    NumaMask,
    ProviderHints,
    ResourceHints,
    TopologyHint,
    best_hint,
    narrowness,
    nodes_in,
    numa_mask,
)

__all__ = ["Policy", "PolicyOptions", "policy_options"]

_ANY_NODE = (TopologyHint(preferred=True),)
_NO_NODE = (TopologyHint(preferred=False),)

_CHECKS_OPTIONS_OF_POLICY_NONE: Final = Difference(
    "the topology manager's options are checked with the policy none too",
    {"1.26": True, "1.28": False},
    "topologymanager/topology_manager.go, ``NewManager`` (kubernetes v1.27.16, v1.28.15)",
)
_GATES_NAMED_IN_ERROR: Final = Difference(
    "the gates in the error for options with TopologyManagerPolicyOptions off",
    {"1.26": '"TopologyManager", "TopologyManagerPolicyOptions"', "1.27": '"TopologyManagerPolicyOptions"'},
    "cmd/kubelet/app/server.go, ``run`` (kubernetes v1.26.15, v1.27.16)",
)
_CLOSEST_LEVEL: Final = Difference(
    "level of the topology manager's option ``prefer-closest-numa-nodes``: ``alpha`` and ``beta`` have a gate "
    "each, ``stable`` has none",
    {"1.26": "alpha", "1.28": "beta", "1.32": "stable"},
    "topologymanager/policy_options.go (kubernetes v1.27.16, v1.28.15, v1.30.14, v1.31.14, v1.32.13, v1.34.4, v1.35.4)",
)
_MAX_NODES_LEVEL: Final = Difference(
    "level of the option ``max-allowable-numa-nodes``; none where it is unknown",
    {"1.26": None, "1.31": "beta", "1.35": "stable"},
    "topologymanager/policy_options.go (kubernetes v1.27.16, v1.28.15, v1.30.14, v1.31.14, v1.32.13, v1.34.4, v1.35.4)",
)
_LEVEL_ERROR: Final = Difference(
    "the error for an option whose level's gate is off, with ``{level}`` or ``{Level}``, and ``{option}``",
    {
        "1.26": 'Topology Manager Policy {Level}-level Options not enabled, but option "{option}" provided',
        "1.33": 'topology manager policy {level}-level options not enabled, but option "{option}" provided',
    },
    "topologymanager/policy_options.go (kubernetes v1.32.13, v1.33.13)",
)

_CLOSEST: Final = "prefer-closest-numa-nodes"
_MAX_NODES: Final = "max-allowable-numa-nodes"
_DEFAULT_MAX_NODES: Final = 8

_TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The options of one topology manager, as far as they mean something to its policy."""

    prefers_closest: bool = False
    max_numa_nodes: int = _DEFAULT_MAX_NODES


def policy_options(settings: TopologySettings, version: Version, gates: Mapping[str, bool]) -> PolicyOptions:
    """Read the options as the kubelet of a minor does when it starts.

    Args:
        settings: policy, options and machine.
        version: the minor.
        gates: feature gates that the user set, on or off.

    Raises:
        InputError: the kubelet would not start.
    """
    _check_gate(settings, version, gates)
    if settings.policy == PolicyName.NONE and not _CHECKS_OPTIONS_OF_POLICY_NONE.at(version):
        return PolicyOptions()
    options = PolicyOptions()
    for name, value in sorted(settings.options.items()):
        _check_level(name, version, gates)
        if name == _CLOSEST:
            options = replace(options, prefers_closest=_truth(name, value))
        else:
            options = replace(options, max_numa_nodes=_node_count(name, value))
    if options.prefers_closest and settings.numa_nodes and settings.distances is None:
        raise InputError("cannot discover NUMA topology: error getting NUMA distances from cadvisor")
    if settings.policy != PolicyName.NONE and len(settings.numa_nodes) > options.max_numa_nodes:
        raise InputError(f"unsupported on machines with more than {options.max_numa_nodes} NUMA Nodes")
    return options


def _check_gate(settings: TopologySettings, version: Version, gates: Mapping[str, bool]) -> None:
    if not settings.options or FEATURE_GATES["TopologyManagerPolicyOptions"].is_on(version, gates):
        return
    given = " ".join(f"{name}:{value}" for name, value in sorted(settings.options.items()))
    needed = _GATES_NAMED_IN_ERROR.at(version)
    raise InputError(f"topology manager policy options map[{given}] require feature gates {needed} enabled")


def _check_level(name: str, version: Version, gates: Mapping[str, bool]) -> None:
    level = {_CLOSEST: _CLOSEST_LEVEL.at(version), _MAX_NODES: _MAX_NODES_LEVEL.at(version)}.get(name)
    if level is None:
        raise InputError(f'unknown Topology Manager Policy option: "{name}"')
    if level == "stable":
        return
    if not FEATURE_GATES[f"TopologyManagerPolicy{level.capitalize()}Options"].is_on(version, gates):
        error = _LEVEL_ERROR.at(version)
        raise InputError(error.format(level=level, Level=level.capitalize(), option=name))


def _truth(name: str, value: str) -> bool:
    if value not in _TRUTHS:
        raise InputError(f'bad value for option "{name}": strconv.ParseBool: parsing "{value}": invalid syntax')
    return _TRUTHS[value]


def _node_count(name: str, value: str) -> int:
    problem = f'unable to convert policy option to integer "{name}": strconv.Atoi: parsing "{value}": '
    try:
        count = parse_int(value)
    except ValueError as error:
        raise InputError(problem + str(error).rpartition(": ")[2]) from None
    if count < _DEFAULT_MAX_NODES:
        raise InputError(f'the minimum value of "{name}" should not be less than {_DEFAULT_MAX_NODES}')
    return count


@dataclass(frozen=True, slots=True)
class _PolicyVerdict:
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

    def merge(self, providers: Sequence[ProviderHints]) -> _PolicyVerdict:
        """Merge what the providers propose.

        Raises:
            EndlessEnumerationError: the kubelet would form too many combinations.
        """
        if self.name is PolicyName.NONE:
            return _PolicyVerdict(NO_HINT, admits=True)
        resources = list(_resource_hints(providers))
        if self.name is PolicyName.SINGLE_NUMA_NODE:
            resources = [tuple(filter(_is_single, hints)) for hints in resources]
        hint = best_hint(resources, self._machine, self._fitness)
        if self.name is PolicyName.SINGLE_NUMA_NODE and hint.nodes == self._machine:
            hint = TopologyHint(preferred=hint.preferred)
        return _PolicyVerdict(hint, self.name is PolicyName.BEST_EFFORT or hint.preferred)

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
