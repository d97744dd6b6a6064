"""The Kubernetes Events about pods: how they are recorded, and those of each pod from any component."""

from __future__ import annotations

from ..._internal.change import Change
from ...model.events import EventRecorded, Observer
from ...model.pod import Pod, PodUID
from ..objects.events import EventRecorder, KubeEvent, read_event
from ..objects.objects import JSON, Key, Objects, Verb, Written

__all__ = ["PodEvents"]


class PodEvents:
    """The Events about the pods of one cluster.

    Args:
        objects: what is stored.
        observe: called with each Event about a pod.
        change: notified of every Event.
    """

    def __init__(self, objects: Objects, observe: Observer, change: Change) -> None:
        self.recorder = EventRecorder(objects)
        self._observe = observe
        self._change = change
        self._events: dict[PodUID, dict[Key, KubeEvent]] = {}
        objects.subscribe("events", self._follow)

    def about(self, uid: PodUID) -> tuple[KubeEvent, ...]:
        """Events that name this uid, oldest first."""
        return tuple(self._events.get(uid, {}).values())

    def record(
        self,
        pod: Pod,
        type_: str,
        reason: str,
        message: str,
        component: str,
        *,
        container: str | None = None,
        host: str | None = None,
        action: str = "",
    ) -> None:
        """Record an Event about a pod.

        Args:
            pod: what it is about; a static pod by its own id.
            type_: ``Normal`` or ``Warning``.
            reason: in one word.
            message: in a sentence.
            component: who says it.
            container: the container that it is about, of those of the pod.
            host: the node of who says it; that of the pod where it is None.
            action: see `EventRecorder.record`; who gives one is on no node.
        """
        about: JSON = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": str(pod.uid),
        }
        if "resourceVersion" in pod.manifest["metadata"]:
            about["resourceVersion"] = pod.manifest["metadata"]["resourceVersion"]
        if container is not None:
            is_app = any(each.name == container for each in pod.app_containers)
            about["fieldPath"] = f"spec.{'containers' if is_app else 'initContainers'}{{{container}}}"
        if host is None:
            host = "" if action else pod.node_name or ""
        self.recorder.record(about, type_, reason, message, component, host=host, action=action)

    def _follow(self, written: Written) -> None:
        event = read_event(written.object)
        about = self._events.setdefault(event.pod_uid, {})
        if written.verb is Verb.DELETED:
            about.pop(written.key, None)
            if not about:
                del self._events[event.pod_uid]
            return
        before = about.get(written.key)
        about[written.key] = event
        involved = written.object["involvedObject"]
        if involved.get("kind") == "Pod" and (before is None or before.count < event.count):
            namespace, name = involved.get("namespace") or "default", str(involved.get("name"))
            key = name if namespace == "default" else f"{namespace}/{name}"
            self._observe(EventRecorded(key, event.type, event.reason, event.message, event.component))
        self._change.notify()
