"""The topology manager's options: which a minor knows, what they may be, and what the kubelet says if they cannot.

A kubelet that refuses its options does not start, so every error here is the user's; the texts are the kubelet's.

Source: topologymanager/policy_options.go ``NewPolicyOptions``, numa_info.go ``NewNUMAInfo`` and topology_manager.go
``NewManager``; cmd/kubelet/app/server.go ``run`` (kubernetes v1.26.15 to v1.37.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..model.errors import InputError
from ..model.topology_settings import PolicyName, TopologySettings
from ..model.version import Version

__all__ = ["PolicyOptions", "policy_options"]

_CLOSEST: Final = "prefer-closest-numa-nodes"
_MAX_NODES: Final = "max-allowable-numa-nodes"
_DEFAULT_MAX_NODES: Final = 8

_TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_LARGEST_INT: Final = 2**63 - 1


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
    if settings.policy == PolicyName.NONE and not version.checks_topology_options_always:
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
    if not settings.options or gates.get("TopologyManagerPolicyOptions", version.has_topology_options):
        return
    given = " ".join(f"{name}:{value}" for name, value in sorted(settings.options.items()))
    needed = ", ".join(f'"{gate}"' for gate in version.topology_options_gates)
    raise InputError(f"topology manager policy options map[{given}] require feature gates {needed} enabled")


def _check_level(name: str, version: Version, gates: Mapping[str, bool]) -> None:
    level = {_CLOSEST: version.prefer_closest_level, _MAX_NODES: version.max_numa_nodes_level}.get(name)
    if level is None:
        raise InputError(f'unknown Topology Manager Policy option: "{name}"')
    if level == "stable":
        return
    is_on_by_default = level == "beta" and version.has_topology_options
    if not gates.get(f"TopologyManagerPolicy{level.capitalize()}Options", is_on_by_default):
        error = version.topology_option_level_error
        raise InputError(error.format(level=level, Level=level.capitalize(), option=name))


def _truth(name: str, value: str) -> bool:
    if value not in _TRUTHS:
        raise InputError(f'bad value for option "{name}": strconv.ParseBool: parsing "{value}": invalid syntax')
    return _TRUTHS[value]


def _node_count(name: str, value: str) -> int:
    problem = f'unable to convert policy option to integer "{name}": strconv.Atoi: parsing "{value}": '
    if not _INTEGER.fullmatch(value):
        raise InputError(problem + "invalid syntax")
    count = int(value)
    if not -_LARGEST_INT - 1 <= count <= _LARGEST_INT:
        raise InputError(problem + "value out of range")
    if count < _DEFAULT_MAX_NODES:
        raise InputError(f'the minimum value of "{name}" should not be less than {_DEFAULT_MAX_NODES}')
    return count
