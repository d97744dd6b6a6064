"""On which nodes a DaemonSet wants a pod, and the pod that it makes there.

Source: pkg/controller/daemon/daemon_controller.go, ``NodeShouldRunDaemonPod``; util/daemonset_util.go,
``CreatePodTemplate``, ``AddOrUpdateDaemonPodTolerations``, ``ReplaceDaemonSetPodNodeNameNodeAffinity``;
pkg/controller/controller_utils.go, ``GetPodFromTemplate`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..objects.node_selection import matches_required_affinity, untolerated_taint
from ..objects.objects import JSON
from ..strategies.daemonsets import template_generation

__all__ = ["HASH_LABEL", "continues_on", "new_pod", "owner_reference", "runs_on", "target_node"]

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
_MAX_PREFIX: Final = 253


def runs_on(daemon_set: JSON, node: JSON) -> bool:
    """Whether a node without a pod of the set gets one."""
    return _fits(daemon_set, node, ("NoSchedule", "NoExecute"))


def continues_on(daemon_set: JSON, node: JSON) -> bool:
    """Whether a pod of the set that is on a node stays there."""
    return _fits(daemon_set, node, ("NoExecute",))


def new_pod(daemon_set: JSON, node: str, revision_hash: str) -> JSON:
    """The pod for a node, as the controller creates it: the scheduler binds it by its affinity to the node's name."""
    template = copy.deepcopy(daemon_set["spec"]["template"])
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: revision_hash}
    generation = template_generation(daemon_set)
    if generation is not None:
        labels[GENERATION_LABEL] = generation
    spec = template["spec"]
    spec["tolerations"] = _tolerations(spec)
    spec["affinity"] = _affinity(spec.get("affinity"), node)
    made = {
        "generateName": f"{daemon_set['metadata']['name']}-"[:_MAX_PREFIX],
        "labels": labels,
        "ownerReferences": [owner_reference(daemon_set)],
    }
    kept = {name: metadata[name] for name in ("annotations", "finalizers") if metadata.get(name)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**made, **kept}, "spec": spec}


def owner_reference(daemon_set: JSON) -> JSON:
    """How what a DaemonSet has made names it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": daemon_set["metadata"]["name"],
        "uid": daemon_set["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


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


def _fits(daemon_set: JSON, node: JSON, effects: tuple[str, ...]) -> bool:
    spec = daemon_set["spec"]["template"]["spec"]
    if spec.get("nodeName") not in (None, "", node["metadata"]["name"]):
        return False
    taints = (node.get("spec") or {}).get("taints") or ()
    return matches_required_affinity(spec, node) and untolerated_taint(taints, _tolerations(spec), effects) is None


def _tolerations(pod_spec: Mapping[str, Any]) -> list[JSON]:
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


def _is_for_same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Source: api/core/v1/toleration.go, ``MatchToleration`` (v0.34.4)."""
    return all((left.get(name) or "") == (right.get(name) or "") for name in ("key", "effect", "operator", "value"))


def _affinity(affinity: JSON | None, node: str) -> JSON:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    own = affinity or {}
    about_nodes = {**(own.get("nodeAffinity") or {}), "requiredDuringSchedulingIgnoredDuringExecution": required}
    return {**own, "nodeAffinity": about_nodes}
