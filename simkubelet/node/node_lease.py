"""The lease with which a kubelet tells that its node still lives.

Source: component-helpers, apimachinery/lease/controller.go (v0.34.4); kubelet/kubelet.go, ``NewMainKubelet``
(kubernetes v1.34.4): a lease of 40 s, renewed after a quarter of that.
"""

from __future__ import annotations

from typing import Any, Final

from ..cluster.objects.objects import Key
from .context import Surroundings

__all__ = ["NodeLease"]

_DURATION_S: Final = 40
_RENEW_PERIOD_S: Final = _DURATION_S / 4


class NodeLease:
    """The lease of one node."""

    def __init__(self, node: str, surroundings: Surroundings) -> None:
        self._node = node
        self._key = Key("leases.coordination.k8s.io", "kube-node-lease", node)
        self._store = surroundings.store
        self._clock = surroundings.clock

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            self.renew()
            await self._clock.sleep(_RENEW_PERIOD_S)

    def renew(self) -> None:
        """Write the lease with the date of now; one that somebody removed is made anew."""
        objects = self._store.objects
        old = objects.get(self._key)
        renewed = {
            "holderIdentity": self._node,
            "leaseDurationSeconds": _DURATION_S,
            "renewTime": objects.wall_time.now_micro(),
        }
        if old is None:
            objects.create(self._key, {"metadata": self._metadata(), "spec": renewed})
        else:
            objects.replace(self._key, {**old, "spec": {**(old.get("spec") or {}), **renewed}})

    def _metadata(self) -> dict[str, Any]:
        node = self._store.node(self._node)
        if node is None:
            return {}
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.manifest["metadata"]["uid"]}
        return {"ownerReferences": [owner]}
