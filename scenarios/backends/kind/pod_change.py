"""What a story's verbs do to pods of a cluster beside their life: binding and annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simkubelet.errors import InputError

from ...pod_action import Annotate, PodAction
from .api import ClusterApi
from .placement import annotated


async def change_pod(action: PodAction, node: str, names: Mapping[str, str], api: ClusterApi) -> None:
    """Do what a step says to a pod.

    Args:
        action: What it says.
        node: Where the pod is to be bound, by the cluster's own name.
        names: A node's name in the story -> the cluster's.
        api: Of the cluster.

    Raises:
        InputError: There is no such pod, or it is bound already.
    """
    url = f"namespaces/default/pods/{action.pod}"
    if isinstance(action, Annotate):
        answer = await api.call("PATCH", url, {"metadata": {"annotations": annotated(action.annotations, names)}})
    else:
        binding: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": action.pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        answer = await api.call("POST", f"{url}/binding", binding)
    if not answer:
        raise InputError(f"no pod '{action.pod}' is there now")
