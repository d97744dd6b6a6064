"""The scheduler's plugins, why one refuses a node, and the messages about a pod that fits nowhere.

Source: pkg/scheduler/framework/types.go, ``FitError.Error`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ...model.version import Difference, Version

__all__ = ["NO_NODES", "PRE_BIND_FAILED", "Plugin", "Refusal", "event_note", "failed_scheduling", "nodes_available"]

_ENDS_WITH_TWO_FULL_STOPS: Final = Difference(
    "the FailedScheduling text ends with two full stops, as the text of the preemption attempt has its own",
    {"1.26": True, "1.29": False},
    "scheduler/framework/types.go, ``FitError.Error`` (kubernetes v1.28.15, v1.29.6)",
)
NO_NODES: Final = "no nodes available to schedule pods"
_MOST_OF_AN_EVENT: Final = 1024
_CUT: Final = " ..."


class Plugin(StrEnum):
    """A plugin of the default profile that can refuse a pod, in the order in which they are asked.

    NodeName is not among them: a pod that names its node never comes to the scheduler.

    Source: pkg/scheduler/apis/config/v1/default_plugins.go, ``getDefaultPlugins`` (kubernetes v1.34.4).
    """

    SCHEDULING_GATES = "SchedulingGates"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_PORTS = "NodePorts"
    NODE_RESOURCES_FIT = "NodeResourcesFit"
    POD_TOPOLOGY_SPREAD = "PodTopologySpread"
    INTER_POD_AFFINITY = "InterPodAffinity"
    DYNAMIC_RESOURCES = "DynamicResources"


PRE_BIND_FAILED: Final = f'running PreBind plugin "{Plugin.DYNAMIC_RESOURCES}": '
"""How an error begins of a pod that has a node and cannot be bound."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A plugin's no.

    Attributes:
        reasons: in the words of users' events.
        is_resolvable: fewer pods on the node could turn it into a yes.
    """

    plugin: Plugin
    reasons: tuple[str, ...]
    is_resolvable: bool = False


def failed_scheduling(reasons: str, preemption: Iterable[str], version: Version) -> str:
    """The text of a FailedScheduling event.

    Args:
        reasons: as `nodes_available` counts them.
        preemption: what came of the attempts to make room; nothing where room is being made.
        version: whose words they are.
    """
    attempts = ", ".join(preemption)
    end = "." if _ENDS_WITH_TWO_FULL_STOPS.at(version) else ""
    return f"{reasons} {attempts}{end}" if attempts else reasons


def nodes_available(node_count: int, reasons: Iterable[str]) -> str:
    """How many nodes would do, and for which reasons the others would not, each with its number of nodes."""
    texts = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    counted = f" {', '.join(texts)}." if texts else ""
    return f"0/{node_count} nodes are available:{counted}"


def event_note(message: str) -> str:
    """A message as an Event holds it: cut where it is too long for one.

    Source: pkg/scheduler/schedule_one.go, ``truncateMessage`` (kubernetes v1.34.4).
    """
    encoded = message.encode()
    if len(encoded) <= _MOST_OF_AN_EVENT:
        return message
    return encoded[: _MOST_OF_AN_EVENT - len(_CUT)].decode(errors="ignore") + _CUT
