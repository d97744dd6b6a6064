"""Hypothesis strategies for what pods and nodes say about where pods go: of the right types, and mostly wrong."""

from __future__ import annotations

from typing import Any, TypeAlias

from hypothesis import strategies as st

__all__ = ["affinities", "container_ports", "pod_specs", "spread_constraints", "taints", "tolerations"]

Objects: TypeAlias = st.SearchStrategy[dict[str, Any]]


def mostly(good: list[Any], bad: list[Any]) -> st.SearchStrategy[Any]:
    """One of several values, seldom a bad one."""
    return st.integers(0, 11).flatmap(lambda number: st.sampled_from(good if number else bad))


LABEL_KEYS = mostly(["zone", "a.b/c", "kubernetes.io/hostname"], ["", "-", "a/b/c"])
LABEL_VALUES = mostly(["", "x", "1", "2"], ["-3", "no value", "n" * 64, "Ä"])
NAMES = mostly(["metadata.name"], ["metadata.uid", ""])
OPERATORS = mostly(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"], ["Equal", "", "in"])
EFFECTS = mostly(["NoSchedule", "PreferNoSchedule", "NoExecute"], ["", "Never"])
WEIGHTS = mostly([1, 50, 100], [0, -1, 101, 2**31 - 1])
LABELS = st.dictionaries(LABEL_KEYS, LABEL_VALUES, max_size=2)


def some(**fields: st.SearchStrategy[Any]) -> Objects:
    """An object in which any of the fields may be missing, but mostly none is."""
    return st.fixed_dictionaries({name: st.integers(0, 7) for name in fields}).flatmap(
        lambda numbers: st.fixed_dictionaries({name: fields[name] for name, number in numbers.items() if number})
    )


def several(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, max_size=3)


def terms(required: st.SearchStrategy[Any], preferred: st.SearchStrategy[Any]) -> Objects:
    return some(
        requiredDuringSchedulingIgnoredDuringExecution=required,
        preferredDuringSchedulingIgnoredDuringExecution=several(preferred),
    )


NODE_REQUIREMENTS = some(key=LABEL_KEYS, operator=OPERATORS, values=several(LABEL_VALUES))
FIELD_REQUIREMENTS = some(key=NAMES, operator=OPERATORS, values=several(mostly(["n", "m"], ["", "-"])))
NODE_TERMS = some(matchExpressions=several(NODE_REQUIREMENTS), matchFields=several(FIELD_REQUIREMENTS))
SELECTORS = some(matchLabels=LABELS, matchExpressions=several(NODE_REQUIREMENTS))
POD_TERMS = some(
    topologyKey=LABEL_KEYS,
    labelSelector=SELECTORS,
    namespaceSelector=SELECTORS,
    namespaces=several(mostly(["default"], ["", "A"])),
    matchLabelKeys=several(LABEL_KEYS),
    mismatchLabelKeys=several(LABEL_KEYS),
)
ABOUT_PODS = terms(several(POD_TERMS), some(weight=WEIGHTS, podAffinityTerm=POD_TERMS))


def affinities() -> Objects:
    """Affinities to nodes and to pods."""
    about_nodes = terms(some(nodeSelectorTerms=several(NODE_TERMS)), some(weight=WEIGHTS, preference=NODE_TERMS))
    return some(nodeAffinity=about_nodes, podAffinity=ABOUT_PODS, podAntiAffinity=ABOUT_PODS)


def spread_constraints() -> Objects:
    """Topology spread constraints."""
    return some(
        maxSkew=mostly([1, 2], [0, -1]),
        topologyKey=LABEL_KEYS,
        whenUnsatisfiable=mostly(["DoNotSchedule", "ScheduleAnyway"], ["", "Never"]),
        minDomains=mostly([1, 2], [0, -1]),
        nodeAffinityPolicy=mostly(["Honor", "Ignore"], ["", "Never"]),
        nodeTaintsPolicy=mostly(["Honor", "Ignore"], ["", "Never"]),
        matchLabelKeys=several(LABEL_KEYS),
        labelSelector=SELECTORS,
    )


def taints() -> Objects:
    """Taints of nodes."""
    return some(key=LABEL_KEYS, value=LABEL_VALUES, effect=EFFECTS)


def tolerations() -> Objects:
    """Tolerations of pods."""
    return some(
        key=LABEL_KEYS,
        operator=mostly(["Equal", "Exists"], ["", "In"]),
        value=LABEL_VALUES,
        effect=EFFECTS,
        tolerationSeconds=st.sampled_from([0, -1, 300, 2**63 - 1]),
    )


def container_ports() -> Objects:
    """Ports of containers."""
    return some(
        containerPort=mostly([80, 81], [0, -1, 65536]),
        hostPort=mostly([80, 81], [0, -1, 65536]),
        hostIP=st.sampled_from(["", "127.0.0.1", "nowhere"]),
        protocol=mostly(["TCP", "UDP"], ["", "ICMP"]),
        name=mostly(["http"], ["", "UPPER"]),
    )


def pod_specs() -> Objects:
    """Specs of pods with one container."""
    containers = st.builds(lambda ports: [{"name": "c", "image": "x", "ports": ports}], several(container_ports()))
    return st.fixed_dictionaries(
        {"containers": containers},
        optional={
            "affinity": affinities(),
            "hostNetwork": st.booleans(),
            "nodeName": st.sampled_from(["n", "", "-"]),
            "nodeSelector": LABELS,
            "schedulingGates": several(some(name=LABEL_KEYS)),
            "tolerations": several(tolerations()),
            "topologySpreadConstraints": several(spread_constraints()),
        },
    )
