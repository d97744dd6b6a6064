"""Random clusters with claims: nodes and pods of `RandomCluster`, devices on the nodes, and a pod that uses claims.

Claims name alternatives, some have devices already, and a class stands for an extended resource that some nodes have.
"""

from __future__ import annotations

import random

from tests.support.device_claims import DRIVER, alternative, claim_for, device, request, slice_of
from tests.support.random_cluster import FPGA, GPU, JSON, NODES, RandomCluster

__all__ = ["claim_cluster"]

FABRIC = "fabric.example.com"
SIZES = ("large", "medium", "small")
CLASSES: list[JSON] = [
    {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}},
    {"metadata": {"name": "any"}, "spec": {"extendedResourceName": FPGA}},
]


def claim_cluster(seed: int) -> JSON:
    """The arguments of the command ``scores``: the same seed makes the same."""
    return _ClaimCluster(seed).made()


class _ClaimCluster:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - makes examples, guards nothing
        self._made = RandomCluster(seed)
        self._nodes = NODES[: self._rng.choice((1, 2, 3, 3, 4, 5))]

    def made(self) -> JSON:
        names = [f"claim-{number}" for number in range(self._rng.choice((0, 1, 1, 2, 2, 3)))]
        pod = self._pod("pod", self._rng.random() < 0.8)
        pod["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in names]
        return {
            "nodes": [self._node(name) for name in self._nodes],
            "pods": [self._bound(f"p{number}") for number in range(self._rng.randint(0, 5))],
            "classes": CLASSES,
            "slices": [*(self._slice(name) for name in self._nodes), self._fabric()],
            "claims": [self._claim(name) for name in names],
            "pod": pod,
        }

    def _node(self, name: str) -> JSON:
        node = self._made.node(name)
        if self._rng.random() < 0.85:
            node["spec"] = {}
            node["status"]["allocatable"] |= {"cpu": "8", "memory": "8Gi", "pods": "110", GPU: "8"}
        return node

    def _pod(self, name: str, is_modest: bool) -> JSON:
        left_out = (
            ("nodeName", "schedulingGates", "nodeSelector", "affinity")
            if is_modest
            else ("nodeName", "schedulingGates")
        )
        spec = {key: value for key, value in self._made.pod_spec().items() if key not in left_out}
        spec["schedulerName"] = "default-scheduler"
        for kind in ("initContainers", "containers"):
            for number, container in enumerate(spec.get(kind, ())):
                container["name"] = f"{kind}-{number}".lower()
        metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "labels": self._made.labels()}
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    def _bound(self, name: str) -> JSON:
        pod = self._pod(name, is_modest=False)
        pod["spec"]["nodeName"] = self._rng.choice(self._nodes)
        return pod

    def _slice(self, node: str) -> JSON:
        devices = [device(f"gpu-{number}", size=self._rng.choice(SIZES)) for number in range(self._rng.randint(1, 5))]
        return slice_of(devices, f"gpus-of-{node}", node)

    def _fabric(self) -> JSON:
        devices = [device(f"channel-{number}") for number in range(3)]
        return {**slice_of(devices, "fabric", None, allNodes=True, pool="fabric", driver=FABRIC)}

    def _claim(self, name: str) -> JSON:
        claim = claim_for(
            *(self._request(f"r{number}") for number in range(self._rng.choice((1, 1, 1, 1, 2)))), name=name
        )
        if self._rng.random() < 0.3:
            results = [self._result(each) for each in claim["spec"]["devices"]["requests"]]
            claim["status"] = {"allocation": {"devices": {"results": results}}}
            if self._rng.random() < 0.3:
                field = {"key": "metadata.name", "operator": "In", "values": [self._rng.choice(self._nodes)]}
                claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        return claim

    def _request(self, name: str) -> JSON:
        if self._rng.random() < 0.25:
            return request(name, count=self._rng.choice((1, 1, 1, 1, 2)))
        sizes = self._rng.sample(SIZES, self._rng.choice((1, 2, 3, 3)))
        selectors = [f'device.attributes["{DRIVER}"].size == "{size}"' for size in sizes]
        pairs = zip(sizes, selectors, strict=True)
        return {
            "name": name,
            "firstAvailable": [alternative(*each, count=self._rng.choice((1, 1, 1, 1, 2))) for each in pairs],
        }

    def _result(self, asked: JSON) -> JSON:
        options = asked.get("firstAvailable")
        name = f"{asked['name']}/{self._rng.choice(options)['name']}" if options else asked["name"]
        return {"request": name, "driver": FABRIC, "pool": "fabric", "device": f"channel-{self._rng.randint(0, 2)}"}
