"""What a story's verbs write into the objects of a simulated world: where a pod is bound, labels and annotations."""

from __future__ import annotations

from simkubelet.cluster import Objects, Store
from simkubelet.cluster.objects.objects import Key
from simkubelet.model.errors import InputError
from simkubelet.model.pod import Pod

from ...story.verbs.pod_action import MetadataAction


def bind(pod: Pod, node: str, store: Store) -> None:
    """Bind a pod to a node.

    Raises:
        InputError: It is bound already.
    """
    if pod.node_name is not None:
        raise InputError(
            f"pod '{pod.key}' is bound to node '{pod.node_name}' already; give its manifest a 'schedulerName' that "
            "no scheduler here has"
        )
    store.bind(pod.uid, node)


def change_metadata(action: MetadataAction, key: Key, objects: Objects) -> None:
    """Set or remove labels or annotations of the object at a place.

    Raises:
        InputError: It is not there.
    """
    body = objects.get(key)
    if body is None:
        raise InputError(f"no {action.subject} is there now")
    metadata = body["metadata"]
    entries = {**(metadata.get(action.part) or {}), **action.entries}
    left = {name: value for name, value in entries.items() if value is not None}
    others = {name: value for name, value in metadata.items() if name != action.part}
    objects.replace(key, {**body, "metadata": {**others, **({action.part: left} if left else {})}})
