"""What a story's verbs write into the objects of a cluster: where a pod is bound, labels and annotations.

Stories share nodes: the first change of a node's labels or annotations notes on the node itself what they were, and
`restore_node` brings that back, also after a run that was killed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from simkubelet.model.errors import InputError

from ...story.verbs.pod_action import MetadataAction
from .api import ClusterApi, Object
from .placement import annotated

_BEFORE: Final = "simkubelet/before"
"""The annotation of a node that has what was there before: part of ``metadata`` -> key -> value, null for none."""


async def bind(pod: str, node: str, api: ClusterApi) -> None:
    """Bind a pod to a node; both by the cluster's own names.

    Raises:
        InputError: There is no such pod, or it is bound already.
    """
    binding: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    if not await api.call("POST", f"namespaces/default/pods/{pod}/binding", binding):
        raise InputError(f"no pod '{pod}' is there now")


async def change_metadata(action: MetadataAction, names: Mapping[str, str], api: ClusterApi) -> None:
    """Set or remove labels or annotations of a pod or a node.

    Args:
        action: What the story says.
        names: A node's name in the story -> the cluster's.
        api: Of the cluster.

    Raises:
        InputError: There is no such object, or the API server refuses what is written.
    """
    metadata: dict[str, dict[str, str | None]] = {action.part: annotated(action.entries, names)}
    if action.pod is not None:
        url = f"namespaces/default/pods/{action.pod}"
    else:
        url = f"nodes/{names[action.node or '']}"
        before = _before(await api.call("GET", url), action.part, action.entries)
        metadata.setdefault("annotations", {})[_BEFORE] = json.dumps(before)
    if not await api.call("PATCH", url, {"metadata": metadata}):
        raise InputError(f"no {action.subject} is there now")


async def restore_node(node: Object, api: ClusterApi) -> None:
    """Bring back the labels and annotations that a node had before stories changed them."""
    noted = node["metadata"].get("annotations", {}).get(_BEFORE)
    if noted is not None:
        before: dict[str, dict[str, str | None]] = json.loads(noted)
        before.setdefault("annotations", {})[_BEFORE] = None
        await api.call("PATCH", f"nodes/{node['metadata']['name']}", {"metadata": before})


def _before(node: Object, part: str, keys: Mapping[str, object]) -> dict[str, dict[str, str | None]]:
    """What a node had before the first change of some entries, with what was noted of others."""
    metadata = node.get("metadata", {})
    noted: dict[str, dict[str, str | None]] = json.loads(metadata.get("annotations", {}).get(_BEFORE, "{}"))
    there = metadata.get(part, {})
    return {**noted, part: {**{key: there.get(key) for key in keys}, **noted.get(part, {})}}
