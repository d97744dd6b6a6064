"""What a control plane does about namespaces: those that a cluster begins with, and what is in each of them.

Source: pkg/controlplane/controller/systemnamespaces, pkg/controller/serviceaccount/serviceaccounts_controller.go,
pkg/controller/certificates/rootcacertpublisher/publisher.go (kubernetes v1.34.4). Their end is `NamespaceDeletion`.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ..._internal.change import Change
from ..._internal.doors import Door
from ..api.registry.kinds import kind_named
from ..api.registry.registry import Registry
from ..objects.objects import Written

__all__ = ["NamespaceController"]

_SYNC: Final = Door("sync of a namespace")
_SYSTEM: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAMESPACES: Final = kind_named("namespaces")
_SERVICE_ACCOUNTS: Final = kind_named("serviceaccounts")
_CONFIG_MAPS: Final = kind_named("configmaps")
_DEFAULT_ACCOUNT: Final = "default"
_ROOT_CA: Final = "kube-root-ca.crt"
_KEPT: Final = {(_SERVICE_ACCOUNTS.key_kind, _DEFAULT_ACCOUNT), (_CONFIG_MAPS.key_kind, _ROOT_CA)}
_ROOT_CA_ANNOTATIONS: Final = {
    "kubernetes.io/description": (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
        "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of "
        "Kubernetes clusters."
    )
}


class NamespaceController:
    """Keeps a service account and the root certificate in each namespace that is not deleted.

    Args:
        authority: the certificate in PEM; empty where the API server has none.
    """

    def __init__(self, registry: Registry, authority: str = "") -> None:
        self._registry = registry
        self._authority = authority
        self._concerning = Change()
        for kind in (_NAMESPACES, _SERVICE_ACCOUNTS, _CONFIG_MAPS):
            registry.objects.subscribe(kind.key_kind, self._note)

    def ensure_namespaces(self) -> None:
        """Create the namespaces that every cluster has, with their service accounts."""
        for name in _SYSTEM:
            if self._registry.objects.get(_NAMESPACES.key("", name)) is None:
                self._registry.create(_NAMESPACES, "", {"metadata": {"name": name}})
        self._settle()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            seen = self._concerning.count
            self._settle()
            await self._concerning.wait(seen)

    def _note(self, written: Written) -> None:
        """Look again where something that is kept has changed."""
        key = written.key
        if key.kind == _NAMESPACES.key_kind or (key.kind, key.name) in _KEPT:
            self._concerning.notify()

    def _settle(self) -> None:
        for namespace in self._registry.objects.all_of(_NAMESPACES.key_kind):
            if namespace["metadata"].get("deletionTimestamp"):
                continue
            name = namespace["metadata"]["name"]
            key = _NAMESPACES.key("", name)
            with _SYNC(name, partial(self._registry.objects.record_failure, key, namespace)):
                self._furnish(name)

    def _furnish(self, name: str) -> None:
        """Make what every namespace has."""
        if self._registry.objects.get(_SERVICE_ACCOUNTS.key(name, _DEFAULT_ACCOUNT)) is None:
            self._registry.create(_SERVICE_ACCOUNTS, name, {"metadata": {"name": _DEFAULT_ACCOUNT}})
        if self._authority:
            self._publish_authority(name)

    def _publish_authority(self, namespace: str) -> None:
        key, data = _CONFIG_MAPS.key(namespace, _ROOT_CA), {"ca.crt": self._authority}
        found = self._registry.objects.get(key)
        if found is None:
            metadata = {"name": _ROOT_CA, "annotations": _ROOT_CA_ANNOTATIONS}
            self._registry.create(_CONFIG_MAPS, namespace, {"metadata": metadata, "data": data})
        elif found.get("data") != data:
            self._registry.objects.replace(key, {**found, "data": data})
