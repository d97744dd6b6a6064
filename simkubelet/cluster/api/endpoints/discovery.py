"""What a server says that it serves: groups, versions, resources; in the old form and the aggregated one.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/discovery (kubernetes v1.34.4).
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from ...objects.objects import JSON
from ..registry.kinds import KINDS, Kind
from .views import Form, form_asked

__all__ = ["discovery_document", "is_below_a_group"]

_AGGREGATED: Final = tuple(
    Form("APIGroupDiscoveryList", "apidiscovery.k8s.io", version) for version in ("v2", "v2beta1")
)


def discovery_document(path: str, accept: str, address: str) -> tuple[JSON, str] | None:
    """The document at a path and its media type; None where there is none.

    Args:
        path: without slashes around it.
        accept: the request's header.
        address: the server's own, as ``host:port``.
    """
    groups = sorted({kind.group for kind in KINDS if kind.group})
    if path in ("api", "apis"):
        form = form_asked(accept, _AGGREGATED)
        if form.kind:
            media_type = f"application/json;g={form.group};v={form.version};as={form.kind}"
            return _aggregated([""] if path == "api" else groups, form), media_type
        cidrs = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        if path == "api":
            document: JSON = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": cidrs}
        else:
            document = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in groups]}
    elif path == "api/v1":
        document = _resources("", "v1")
    elif (parts := path.split("/"))[0] == "apis" and len(parts) == 2 and parts[1] in groups:
        document = {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1])}
    elif parts[0] == "apis" and len(parts) == 3 and parts[2] in _versions(parts[1]):
        document = _resources(parts[1], parts[2])
    else:
        return None
    return document, "application/json"


def is_below_a_group(path: str) -> bool:
    """Whether what is not found at a path, without slashes around it, is a resource of a group that is served."""
    first, _, rest = path.partition("/")
    return first == "api" or (first == "apis" and bool(_versions(rest.partition("/")[0])))


def _of(group: str, version: str) -> list[Kind]:
    return [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]


def _versions(group: str) -> list[str]:
    return sorted({kind.version for kind in KINDS if kind.group == group})


def _group(group: str) -> JSON:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in _versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str) -> JSON:
    resources = []
    for kind in _of(group, version):
        entry: JSON = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        if "list" in kind.verbs:
            entry["storageVersionHash"] = _storage_version_hash(kind)
        resources.append(entry)
        for sub in kind.subresources:
            below: JSON = {"name": f"{kind.plural}/{sub.name}", "singularName": "", "namespaced": kind.namespaced}
            if sub.group:
                below.update(group=sub.group, version=sub.version)
            resources.append({**below, "kind": sub.kind, "verbs": list(sub.verbs)})
    group_version = f"{group}/{version}" if group else version
    document: JSON = {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}
    return {**document, "apiVersion": "v1"} if group else document


def _storage_version_hash(kind: Kind) -> str:
    digest = hashlib.sha256(f"{kind.group}/{kind.version}/{kind.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _aggregated(groups: list[str], form: Form) -> JSON:
    items: list[JSON] = []
    for group in groups:
        versions: list[JSON] = [
            {
                "version": version,
                "resources": [_aggregated_resource(kind) for kind in _of(group, version)],
                "freshness": "Current",
            }
            for version in _versions(group)
        ]
        metadata: JSON = {"name": group} if group else {}
        items.append({"metadata": {**metadata, "creationTimestamp": None}, "versions": versions})
    version = f"{form.group}/{form.version}"
    return {"kind": form.kind, "apiVersion": version, "metadata": {}, "items": items}


def _aggregated_resource(kind: Kind) -> JSON:
    entry: JSON = {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                "verbs": list(sub.verbs),
            }
            for sub in kind.subresources
        ]
    return entry
