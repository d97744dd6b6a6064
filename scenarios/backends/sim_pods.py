"""What a story's verbs do to pods of a simulated world beside their life: binding and annotations."""

from __future__ import annotations

from simkubelet.cluster import Store
from simkubelet.cluster.pod_json import pod_key
from simkubelet.errors import InputError
from simkubelet.pod import Pod

from ..pod_action import Annotate, PodAction


def change_pod(action: PodAction, pod: Pod, node: str, store: Store) -> None:
    """Do what a step says to a pod.

    Raises:
        InputError: It is bound already.
    """
    if isinstance(action, Annotate):
        metadata = pod.manifest["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **action.annotations}
        body = {**pod.manifest, "metadata": {**metadata, "annotations": annotations}}
        store.objects.replace(pod_key(pod), body)
    elif pod.node_name is not None:
        raise InputError(
            f"pod '{pod.key}' is bound to node '{pod.node_name}' already; give its manifest a 'schedulerName' that "
            "no scheduler here has"
        )
    else:
        store.bind(pod.uid, node)
