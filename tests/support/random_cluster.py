"""Random nodes and pods, as users write them: mostly plain, with every now and then what makes schedulers think."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

JSON = dict[str, Any]

GPU = "nvidia.com/gpu"
FPGA = "example.com/fpga"
NODES = ("n1", "n2", "n3", "n4", "n5")
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
CORDON = "node.kubernetes.io/unschedulable"

_KEYS = ("disk", ZONE, "size")
_VALUES = ("a", "b", "3", "7")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class RandomCluster:
    """Makes objects; the same seed makes the same."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - makes examples, guards nothing

    def node(self, name: str) -> JSON:
        """A v1 Node."""
        labels = {HOSTNAME: name, **{key: self._one(_VALUES) for key in _KEYS if self._happens(0.5)}}
        allocatable = {
            "cpu": self._one(("8", "6", "3500m", "1")),
            "memory": self._one(("8Gi", "5Gi", "3G", "500Mi")),
            "pods": self._one(("110", "110", "110", "3")),
            "ephemeral-storage": "10Gi",
            GPU: str(self._rng.randint(0, 4)),
            **self._maybe(FPGA, 0.5, lambda: str(self._rng.randint(0, 3))),
        }
        spec = {
            **self._maybe("unschedulable", 0.1, lambda: True),
            **self._maybe("taints", 0.25, lambda: self._some(self._taint)),
        }
        status = {"capacity": allocatable, "allocatable": allocatable}
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    def labels(self) -> dict[str, str]:
        """The labels of a pod."""
        return self._maybe("app", 0.8, lambda: self._one(("web", "db")))

    def pod_spec(self) -> JSON:
        """The spec of a v1 Pod whose containers have no names yet."""
        return {
            "schedulerName": "default-scheduler" if self._happens(0.97) else "another-one",
            "containers": self._some(self._container),
            **self._maybe("initContainers", 0.15, lambda: self._some(self._init_container)),
            **self._maybe("priority", 0.5, lambda: self._one((-5, 10, 10, 2000))),
            **self._maybe("preemptionPolicy", 0.08, lambda: "Never"),
            **self._maybe("nodeSelector", 0.08, lambda: {self._one(_KEYS): self._one(_VALUES)}),
            **self._maybe("tolerations", 0.25, lambda: self._some(self.toleration)),
            **self._maybe("affinity", 0.3, self._affinity),
            **self._maybe("topologySpreadConstraints", 0.25, self._spread_constraints),
            **self._maybe("schedulingGates", 0.06, lambda: [{"name": "example.com/wait"}]),
            **self._maybe("nodeName", 0.1, lambda: self._one(NODES)),
        }

    def toleration(self) -> JSON:
        """One that is of use on the nodes made here."""
        if self._happens(0.15):
            return {"operator": "Exists"}
        if self._happens(0.15):
            return {"key": CORDON, "operator": "Exists", "effect": "NoSchedule"}
        effect = self._maybe("effect", 0.5, lambda: self._one(_EFFECTS))
        if self._happens(0.5):
            return {"key": self._one(("t1", "t2")), "operator": "Exists", **effect}
        return {"key": self._one(("t1", "t2")), **self._maybe("value", 0.5, lambda: self._one(_VALUES)), **effect}

    def _taint(self) -> JSON:
        value = self._maybe("value", 0.5, lambda: self._one(_VALUES))
        return {"key": self._one(("t1", "t2", CORDON)), **value, "effect": self._one(_EFFECTS)}

    def _container(self) -> JSON:
        amounts = {
            **self._maybe("cpu", 0.5, lambda: self._one(("100m", "1", "2500m"))),
            **self._maybe("memory", 0.5, lambda: self._one(("100Mi", "1G"))),
            **self._maybe("ephemeral-storage", 0.05, lambda: "6Gi"),
            **self._maybe(GPU, 0.5, lambda: self._one(("1", "1", "2", "0"))),
            **self._maybe(FPGA, 0.1, lambda: self._one(("1", "2"))),
        }
        ports = self._maybe("ports", 0.06, lambda: [self._port()])
        return {"resources": {"requests": amounts, "limits": amounts}, **ports}

    def _port(self) -> JSON:
        port = self._one((80, 81))
        return {"containerPort": port, "hostPort": port, "protocol": self._one(("TCP", "TCP", "UDP"))}

    def _init_container(self) -> JSON:
        return {**self._container(), **self._maybe("restartPolicy", 0.5, lambda: "Always")}

    def _affinity(self) -> JSON:
        return {
            **self._maybe("nodeAffinity", 0.5, self._node_affinity),
            **self._maybe("podAffinity", 0.3, self._pod_affinity),
            **self._maybe("podAntiAffinity", 0.4, self._pod_affinity),
        }

    def _node_affinity(self) -> JSON:
        return {
            **self._maybe(_REQUIRED, 0.6, lambda: {"nodeSelectorTerms": self._some(self._node_term)}),
            **self._maybe(
                _PREFERRED,
                0.6,
                lambda: self._some(lambda: {"weight": self._rng.randint(1, 100), "preference": self._node_term()}),
            ),
        }

    def _node_term(self) -> JSON:
        return {
            **self._maybe("matchExpressions", 0.7, lambda: self._some(self._requirement)),
            **self._maybe("matchFields", 0.3, lambda: self._some(self._field)),
        }

    def _requirement(self) -> JSON:
        operator = self._one(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        values = {"In": self._some(lambda: self._one(_VALUES)), "Gt": [self._one(("2", "2", "2", "1_0"))], "Lt": ["5"]}
        values["NotIn"] = values["In"]
        return {
            "key": self._one(_KEYS),
            "operator": operator,
            **({"values": values[operator]} if operator in values else {}),
        }

    def _field(self) -> JSON:
        return {"key": "metadata.name", "operator": self._one(("In", "In", "NotIn")), "values": [self._one(NODES)]}

    def _pod_affinity(self) -> JSON:
        return {
            **self._maybe(_REQUIRED, 0.6, lambda: self._some(self._pod_term)),
            **self._maybe(
                _PREFERRED,
                0.6,
                lambda: self._some(lambda: {"weight": self._rng.randint(1, 100), "podAffinityTerm": self._pod_term()}),
            ),
        }

    def _spread_constraints(self) -> list[JSON]:
        places = [(key, when) for key in (ZONE, HOSTNAME) for when in ("DoNotSchedule", "ScheduleAnyway")]
        return [self._spread_constraint(*place) for place in self._rng.sample(places, self._one((1, 1, 2, 3)))]

    def _spread_constraint(self, key: str, when: str) -> JSON:
        may_have_domains = 0.3 if when == "DoNotSchedule" else 0
        return {
            "maxSkew": self._one((1, 1, 2, 3)),
            "topologyKey": key,
            "whenUnsatisfiable": when,
            **self._maybe("labelSelector", 0.95, self._selector),
            **self._maybe("minDomains", may_have_domains, lambda: self._rng.randint(1, 4)),
            **self._maybe("matchLabelKeys", 0.2, lambda: ["app"]),
            **self._maybe("nodeAffinityPolicy", 0.4, lambda: self._one(("Honor", "Ignore"))),
            **self._maybe("nodeTaintsPolicy", 0.4, lambda: self._one(("Honor", "Ignore"))),
        }

    def _selector(self) -> JSON:
        expression = {"key": "app", "operator": self._one(("In", "NotIn")), "values": [self._one(("web", "db"))]}
        return self._one(({"matchLabels": {"app": "web"}}, {"matchExpressions": [expression]}, {}))

    def _pod_term(self) -> JSON:
        return {
            "topologyKey": self._one((ZONE, HOSTNAME)),
            **self._maybe("labelSelector", 0.95, self._selector),
            **self._maybe("namespaces", 0.05, lambda: ["elsewhere"]),
            **self._maybe("namespaceSelector", 0.05, dict),
        }

    def _one(self, choices: tuple[_T, ...]) -> _T:
        return self._rng.choice(choices)

    def _some(self, make: Callable[[], _T]) -> list[_T]:
        return [make() for _ in range(self._one((1, 1, 2)))]

    def _happens(self, likelihood: float) -> bool:
        return self._rng.random() < likelihood

    def _maybe(self, name: str, likelihood: float, make: Callable[[], Any]) -> JSON:
        return {name: make()} if self._happens(likelihood) else {}
