"""What a DaemonSet's controller does next: the nodes that get a pod, and the pods that go.

Source: pkg/controller/daemon/daemon_controller.go, ``manage``, ``podsShouldBeOnNode``, ``NodeShouldRunDaemonPod``;
update.go, ``rollingUpdate``; util/daemonset_util.go, ``AddOrUpdateDaemonPodTolerations`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..objects.node_selection import matches_required_affinity, untolerated_taint
from ..objects.objects import JSON, WallTime
from ..objects.pod_json import has_ended
from ..strategies.daemonsets import template_generation

__all__ = [
    "GENERATION_LABEL",
    "HASH_LABEL",
    "DaemonSetView",
    "Plan",
    "by_node",
    "continues_on",
    "daemon_tolerations",
    "manage",
    "rolling_update",
    "runs_on",
    "status",
    "target_node",
]

HASH_LABEL: Final = "controller-revision-hash"
GENERATION_LABEL: Final = "pod-template-generation"

_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


@dataclass(frozen=True, slots=True)
class DaemonSetView:
    """A DaemonSet with its current revision, and the date by which its pods are judged."""

    object: JSON
    revision_hash: str
    wall_time: WallTime

    def is_updated(self, pod: JSON) -> bool:
        """Whether a pod was made from the current template."""
        labels = pod["metadata"].get("labels") or {}
        generation = template_generation(self.object)
        is_of_generation = generation is not None and labels.get(GENERATION_LABEL) == generation
        return labels.get(HASH_LABEL) == self.revision_hash or is_of_generation

    def is_available(self, pod: JSON) -> bool:
        """Whether a pod has been ready for as long as the set asks."""
        ready = _ready_condition(pod)
        if ready is None:
            return False
        min_ready_s = self.object["spec"].get("minReadySeconds") or 0
        since = ready.get("lastTransitionTime")
        if not min_ready_s:
            return True
        return since is not None and self.wall_time.seconds(since) + min_ready_s <= self._now()

    def available_in_s(self, pods: Iterable[JSON]) -> float | None:
        """In how many seconds the next of these pods is available just by having been ready; None where none will."""
        min_ready_s = self.object["spec"].get("minReadySeconds") or 0
        dates = [ready["lastTransitionTime"] for pod in pods if (ready := _ready_condition(pod)) is not None]
        waits = [self.wall_time.seconds(date) + min_ready_s - self._now() for date in dates]
        return min((wait for wait in waits if wait > 0), default=None)

    @property
    def max_surge(self) -> str | int:
        """Pods beside the old ones, as a number or a percentage of the nodes; 0 where old pods go first."""
        return self._limit("maxSurge", 0) or 0

    @property
    def max_unavailable(self) -> str | int:
        """Nodes that may be without an available pod, as a number or a percentage of the nodes."""
        return self._limit("maxUnavailable", 1)

    @property
    def is_rolling(self) -> bool:
        """Whether pods of an older template are replaced by the controller; else it waits until they are deleted."""
        return bool(self._strategy.get("type", "RollingUpdate") == "RollingUpdate")

    @property
    def _strategy(self) -> JSON:
        return self.object["spec"].get("updateStrategy") or {}

    def _limit(self, name: str, default: int) -> str | int:
        rolling = (self._strategy.get("rollingUpdate") if self.is_rolling else None) or {}
        limit: str | int = rolling.get(name, default)
        return limit

    def _now(self) -> float:
        return self.wall_time.seconds(self.wall_time.now())


@dataclass(frozen=True, slots=True)
class Plan:
    """One step of the controller.

    Attributes:
        create_on: nodes, by name.
        delete: pods, by name.
        ended: of the pods that go, those that had ended: name -> (node, phase).
    """

    create_on: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    ended: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.create_on or self.delete)


def by_node(pods: Iterable[JSON]) -> dict[str, list[JSON]]:
    """Node -> the set's pods for it, without those that have ended and are being deleted."""
    found: dict[str, list[JSON]] = {}
    for pod in pods:
        if not (_is_deleting(pod) and has_ended(pod)):
            found.setdefault(target_node(pod), []).append(pod)
    return found


def manage(
    view: DaemonSetView, nodes: Sequence[JSON], pods: Mapping[str, list[JSON]], is_waiting: Callable[[str], bool]
) -> Plan:
    """Create a pod for each node that should have one, and delete the pods that are too many.

    Args:
        view: the set.
        nodes: all nodes.
        pods: node -> the set's pods, see `by_node`.
        is_waiting: whether a node's failed pod stays for now, as the one before it failed a moment ago.
    """
    create_on: list[str] = []
    delete: list[str] = []
    ended: dict[str, tuple[str, str]] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        here = pods.get(name)
        if here is None:
            if runs_on(view.object, node):
                create_on.append(name)
            continue
        alive = [pod for pod in here if not _is_deleting(pod)]
        if not continues_on(view.object, node):
            delete += map(_name, alive)
            continue
        running = [pod for pod in alive if not has_ended(pod)]
        for pod in alive:
            if _phase(pod) == "Succeeded" or (_phase(pod) == "Failed" and not is_waiting(name)):
                delete.append(_name(pod))
                ended[_name(pod)] = (name, _phase(pod))
        if not _scaled(view.max_surge, 1):
            delete += map(_name, sorted(running, key=_oldest_first)[1:])
        elif running:
            delete += map(_name, _too_many_of_a_surge(view, running))
        elif runs_on(view.object, node):
            create_on.append(name)
    known = {node["metadata"]["name"] for node in nodes}
    lost = [pod for name, here in pods.items() if name not in known for pod in here]
    delete += [_name(pod) for pod in lost if not pod["spec"].get("nodeName")]
    return Plan(tuple(create_on), tuple(delete), ended)


def rolling_update(view: DaemonSetView, nodes: Sequence[JSON], pods: Mapping[str, list[JSON]]) -> Plan:
    """Replace pods of an older template, no more at a time than the set allows."""
    by_name = {node["metadata"]["name"]: node for node in nodes}
    wanted = [name for name, node in by_name.items() if runs_on(view.object, node)]
    surge, unavailable = _scaled(view.max_surge, len(wanted)), _scaled(view.max_unavailable, len(wanted))
    here: Mapping[str, list[JSON]] = {**{name: [] for name in wanted}, **pods}
    if surge == 0:
        # A set that allows neither still moves, see ``updatedDesiredNodeCounts``.
        return _replace_old(view, here, max(unavailable, 1))
    return _surge(view, by_name, here, surge, len(wanted))


def _replace_old(view: DaemonSetView, pods: Mapping[str, list[JSON]], max_unavailable: int) -> Plan:
    missing = 0
    at_once: list[str] = []
    candidates: list[str] = []
    for here in pods.values():
        new, old = _new_and_old(view, here)
        if len(new) > 1 or len(old) > 1 or bool(new) == bool(old):
            missing += 1
        elif new:
            missing += not view.is_available(new[0])
        elif not view.is_available(old[0]):
            at_once.append(_name(old[0]))
            missing += 1
        elif missing < max_unavailable:
            candidates.append(_name(old[0]))
    return Plan(delete=(*at_once, *candidates[: max(max_unavailable - missing, 0)]))


def _surge(
    view: DaemonSetView, nodes: Mapping[str, JSON], pods: Mapping[str, list[JSON]], max_surge: int, wanted: int
) -> Plan:
    surging = available = 0
    delete: list[str] = []
    misplaced: list[str] = []
    create_on: list[str] = []
    candidates: list[str] = []
    for name, here in pods.items():
        new, old = _new_and_old(view, here)
        if len(new) > 1 or len(old) > 1:
            surging += 1
            continue
        available += view.is_available((old or new)[0]) if old or new else 0
        if not old:
            continue
        if new:
            if view.is_available(new[0]):
                delete.append(_name(old[0]))
            else:
                surging += 1
            continue
        belongs = name in nodes and runs_on(view.object, nodes[name])
        if not view.is_available(old[0]):
            if belongs:
                create_on.append(name)
            else:
                delete.append(_name(old[0]))
        elif not belongs:
            misplaced.append(_name(old[0]))
        elif surging < max_surge:
            candidates.append(name)
    delete += misplaced[: max(available - wanted, 0)]
    return Plan((*create_on, *candidates[: max(max_surge - surging, 0)]), tuple(delete))


def status(view: DaemonSetView, nodes: Sequence[JSON], pods: Mapping[str, list[JSON]]) -> JSON:
    """The counts of the set's status.

    Source: daemon_controller.go, ``updateDaemonSetStatus`` (kubernetes v1.34.4).
    """
    wanted = [node["metadata"]["name"] for node in nodes if runs_on(view.object, node)]
    firsts = [min(pods[name], key=_oldest_first) for name in wanted if pods.get(name)]
    elsewhere = [node["metadata"]["name"] for node in nodes if node["metadata"]["name"] not in wanted]
    available = sum(map(view.is_available, firsts))
    return {
        "currentNumberScheduled": len(firsts),
        "numberMisscheduled": sum(bool(pods.get(name)) for name in elsewhere),
        "desiredNumberScheduled": len(wanted),
        "numberReady": sum(_ready_condition(pod) is not None for pod in firsts),
        "observedGeneration": view.object["metadata"].get("generation", 0),
        "updatedNumberScheduled": sum(map(view.is_updated, firsts)),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
    }


def _too_many_of_a_surge(view: DaemonSetView, running: Iterable[JSON]) -> list[JSON]:
    """Of several pods on a node all but the oldest of each template, and the old one once it is not needed."""
    ordered = sorted(running, key=_oldest_first)
    if len(ordered) <= 1:
        return []
    new = [pod for pod in ordered if _hash(pod) == view.revision_hash]
    old = [pod for pod in ordered if _hash(pod) != view.revision_hash]
    spare = [*new[1:], *old[1:]]
    if new and old and (_ready_condition(old[0]) is None or view.is_available(new[0])):
        spare.append(old[0])
    return spare


def _new_and_old(view: DaemonSetView, pods: Iterable[JSON]) -> tuple[list[JSON], list[JSON]]:
    alive = [pod for pod in pods if not _is_deleting(pod)]
    new = [pod for pod in alive if view.is_updated(pod)]
    return new, [pod for pod in alive if not view.is_updated(pod)]


def _scaled(value: str | int, total: int) -> int:
    """A number, or a percentage of a number rounded up."""
    if isinstance(value, str):
        return math.ceil(int(value.removesuffix("%")) * total / 100)
    return value


def _oldest_first(pod: JSON) -> tuple[bool, str, str]:
    return not pod["spec"].get("nodeName"), pod["metadata"]["creationTimestamp"], _name(pod)


def _ready_condition(pod: JSON) -> JSON | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "Ready" and one["status"] == "True"), None)


def _hash(pod: JSON) -> str | None:
    found: str | None = (pod["metadata"].get("labels") or {}).get(HASH_LABEL)
    return found


def _name(pod: JSON) -> str:
    return str(pod["metadata"]["name"])


def _phase(pod: JSON) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _is_deleting(pod: JSON) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None


def runs_on(daemon_set: JSON, node: JSON) -> bool:
    """Whether a node without a pod of the set gets one."""
    return _fits(daemon_set, node, ("NoSchedule", "NoExecute"))


def continues_on(daemon_set: JSON, node: JSON) -> bool:
    """Whether a pod of the set that is on a node stays there."""
    return _fits(daemon_set, node, ("NoExecute",))


def target_node(pod: JSON) -> str:
    """The node that a pod of a DaemonSet is for; empty where it names none."""
    bound: str = pod["spec"].get("nodeName") or ""
    if bound:
        return bound
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            values: Sequence[str] = one.get("values") or ()
            if one.get("key") == "metadata.name" and one.get("operator") == "In" and len(values) == 1:
                return str(values[0])
    return ""


def daemon_tolerations(pod_spec: Mapping[str, Any]) -> list[JSON]:
    """The pod's own tolerations, and those of every pod of a DaemonSet."""
    tolerations = list(pod_spec.get("tolerations") or ())
    for key, effect in (*_TOLERATED, *([_TOLERATED_ON_HOST_NETWORK] if pod_spec.get("hostNetwork") else ())):
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        same = [index for index, one in enumerate(tolerations) if _is_for_same(one, toleration)]
        if same:
            tolerations[same[0]] = toleration
        else:
            tolerations.append(toleration)
    return tolerations


def _fits(daemon_set: JSON, node: JSON, effects: tuple[str, ...]) -> bool:
    spec = daemon_set["spec"]["template"]["spec"]
    if spec.get("nodeName") not in (None, "", node["metadata"]["name"]):
        return False
    taints = (node.get("spec") or {}).get("taints") or ()
    return (
        matches_required_affinity(spec, node) and untolerated_taint(taints, daemon_tolerations(spec), effects) is None
    )


def _is_for_same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Source: api/core/v1/toleration.go, ``MatchToleration`` (v0.34.4)."""
    return all((left.get(name) or "") == (right.get(name) or "") for name in ("key", "effect", "operator", "value"))
