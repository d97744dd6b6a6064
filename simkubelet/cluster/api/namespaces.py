"""What a control plane does about namespaces: those that a cluster begins with, their service accounts, their end.

Source: pkg/controlplane/controller/systemnamespaces, pkg/controller/serviceaccount/serviceaccounts_controller.go,
pkg/controller/namespace/deletion/namespaced_resources_deleter.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Final

from ..objects import JSON
from .kinds import KINDS, Kind, kind_named
from .registry import DeleteOptions, Registry

__all__ = ["NamespaceController"]

_SYSTEM: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAMESPACES: Final = kind_named("namespaces")
_SERVICE_ACCOUNTS: Final = kind_named("serviceaccounts")


class NamespaceController:
    """Keeps a service account in each namespace, and empties those that are deleted."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def ensure_namespaces(self) -> None:
        """Create the namespaces that every cluster has, with their service accounts."""
        for name in _SYSTEM:
            if self._registry.objects.get(_NAMESPACES.key("", name)) is None:
                self._registry.create(_NAMESPACES, "", {"metadata": {"name": name}})
        self._settle()

    async def run(self) -> None:
        """Work until cancelled."""
        change = self._registry.objects.change
        while True:
            seen = change.count
            self._settle()
            await change.wait(seen)

    def _settle(self) -> None:
        for namespace in self._registry.objects.all_of(_NAMESPACES.key_kind):
            name = namespace["metadata"]["name"]
            if namespace["metadata"].get("deletionTimestamp"):
                self._empty(namespace, name)
            elif self._registry.objects.get(_SERVICE_ACCOUNTS.key(name, "default")) is None:
                self._registry.create(_SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}})

    def _empty(self, namespace: JSON, name: str) -> None:
        left = False
        for kind in KINDS:
            for obj in self._registry.objects.all_of(kind.key_kind, name) if kind.namespaced else ():
                left |= not self._is_gone(kind, name, obj)
        if not left and not (namespace["metadata"].get("finalizers")):
            self._registry.objects.remove(_NAMESPACES.key("", name))

    def _is_gone(self, kind: Kind, namespace: str, obj: JSON) -> bool:
        """Delete an object, once; one that takes its time is left to who ends it."""
        if obj["metadata"].get("deletionTimestamp"):
            return False
        return self._registry.delete(kind, namespace, obj["metadata"]["name"], DeleteOptions())[1]
