"""What a server says that it serves: groups, versions and resources, in the old form and the aggregated one.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/discovery (kubernetes v1.34.4).
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from ...objects.objects import JSON
from ..registry.kinds import Kind
from ..registry.served import Served
from .views import Form, form_asked

__all__ = ["discovery_document", "is_below_a_group"]

_AGGREGATED: Final = tuple(
    Form("APIGroupDiscoveryList", "apidiscovery.k8s.io", version) for version in ("v2", "v2beta1")
)


def discovery_document(served: Served, path: str, accept: str, address: str) -> tuple[JSON, str] | None:
    """The document at a path and its media type; None where there is none.

    Args:
        served: what the server serves.
        path: without slashes around it.
        accept: the request's header.
        address: the server's own, as ``host:port``.
    """
    groups = served.groups
    if path in ("api", "apis"):
        form = form_asked(accept, _AGGREGATED)
        if form.kind:
            media_type = f"application/json;g={form.group};v={form.version};as={form.kind}"
            return _aggregated(served, [""] if path == "api" else groups, form), media_type
        cidrs = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        if path == "api":
            document: JSON = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": cidrs}
        else:
            found = [_group(served, group) for group in groups]
            document = {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
    elif path == "api/v1":
        document = _resources(served, "", "v1")
    elif (parts := path.split("/"))[0] == "apis" and len(parts) == 2 and parts[1] in groups:
        document = {"kind": "APIGroup", "apiVersion": "v1", **_group(served, parts[1])}
    elif parts[0] == "apis" and len(parts) == 3 and parts[2] in served.versions(parts[1]):
        document = _resources(served, parts[1], parts[2])
    else:
        return None
    return document, "application/json"


def is_below_a_group(served: Served, path: str) -> bool:
    """Whether what is not found at a path, without slashes around it, is a resource of a group that is served."""
    first, _, rest = path.partition("/")
    return first == "api" or (first == "apis" and bool(served.versions(rest.partition("/")[0])))


def _kinds_of(served: Served, group: str, version: str) -> list[Kind]:
    return [kind for kind in served.kinds if (kind.group, kind.version) == (group, version)]


def _group(served: Served, group: str) -> JSON:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in served.versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(served: Served, group: str, version: str) -> JSON:
    resources = []
    for kind in _kinds_of(served, group, version):
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
            entry["storageVersionHash"] = _storage_version_hash(served, kind)
        resources.append(entry)
        for sub in kind.subresources:
            below: JSON = {"name": f"{kind.plural}/{sub.name}", "singularName": "", "namespaced": kind.namespaced}
            if sub.group:
                below.update(group=sub.group, version=sub.version)
            resources.append({**below, "kind": sub.kind, "verbs": list(sub.verbs)})
    group_version = f"{group}/{version}" if group else version
    document: JSON = {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}
    return {**document, "apiVersion": "v1"} if group else document


def _storage_version_hash(served: Served, kind: Kind) -> str:
    group, kind_name = kind.group_kind.group, kind.kind
    digest = hashlib.sha256(f"{group}/{served.storage_version(kind)}/{kind_name}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _aggregated(served: Served, groups: list[str], form: Form) -> JSON:
    items: list[JSON] = []
    for group in groups:
        versions: list[JSON] = [
            {
                "version": version,
                "resources": [_aggregated_resource(kind) for kind in _kinds_of(served, group, version)],
                "freshness": "Current",
            }
            for version in served.versions(group)
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
