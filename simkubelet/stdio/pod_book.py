"""The pods of a session: their objects, and which of them are active."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..model.errors import InputError
from ..model.pod import Container, Pod, PodUID, pod_from_manifest
from .request import Fields, RequestError

__all__ = ["PodBook"]


class PodBook:
    """Pods by uid, in the order in which they were added.

    A pod is active from `add` to `remove`; its object stays, as a container may be asked for after its pod's end,
    until `forget`.
    """

    def __init__(self) -> None:
        self._pods: dict[PodUID, Pod] = {}
        self._active: set[PodUID] = set()

    def add(self, fields: Fields) -> None:
        """Take a pod from the fields of ``add_pod``; one of the same uid is replaced.

        Raises:
            RequestError: the API server would refuse such a pod, or a field is not of its type.
        """
        uid = PodUID(fields.text("uid"))
        manifest = {
            "metadata": {"name": fields.text("name", uid), "namespace": fields.text("namespace", "default")},
            "spec": {
                "initContainers": [_container(container) for container in fields.objects("init_containers")],
                "containers": [_container(container) for container in fields.objects("containers")],
            },
        }
        try:
            self._pods[uid] = replace(pod_from_manifest(manifest), uid=uid)
        except InputError as error:
            raise RequestError(str(error)) from None
        self._active.add(uid)

    def remove(self, uid: str) -> None:
        """End a pod: it is no longer active. Raises as `pod`."""
        self._active.discard(self.pod(uid).uid)

    def forget(self, uid: str) -> None:
        """End a pod and drop its object. Raises as `pod`."""
        self.remove(uid)
        del self._pods[PodUID(uid)]

    def active(self) -> frozenset[PodUID]:
        return frozenset(self._active)

    def all(self) -> Mapping[PodUID, Pod]:
        """Every pod that is not forgotten."""
        return self._pods

    def pod(self, uid: str) -> Pod:
        """The pod of a uid.

        Raises:
            RequestError: no such pod was added, or it was forgotten.
        """
        pod = self._pods.get(PodUID(uid))
        if pod is None:
            raise RequestError(f"pod: no pod {uid!r}; add it first with add_pod")
        return pod

    def container(self, uid: str, name: str) -> tuple[Pod, Container]:
        """A pod and its container of some name.

        Raises:
            RequestError: there is no such pod or container.
        """
        pod = self.pod(uid)
        for container in pod.containers:
            if container.name == name:
                return pod, container
        known = ", ".join(container.name for container in pod.containers)
        raise RequestError(f"container: pod {uid!r} has no container {name!r}; it has {known}")


def _container(fields: Fields) -> dict[str, Any]:
    restart = {"restartPolicy": "Always"} if fields.flag("restartable", default=False) else {}
    return {"name": fields.text("name"), "resources": {"limits": fields.mapping("limits", {})}, **restart}
