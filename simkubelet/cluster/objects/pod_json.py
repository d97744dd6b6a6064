"""The pod objects of the API and the pods that kubelets and the scheduler work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...model.pod import Pod, PodUID, pod_from_manifest
from ...model.pod_status import PodStatus
from .objects import JSON, Key
from .pod_status_json import read_pod_status
from .wall_time import WallTime

__all__ = ["deleting_json", "pod_key", "read_pod", "reread_pod", "with_condition"]


def pod_key(pod: Pod) -> Key:
    """The place of a pod among the objects."""
    return Key("pods", pod.namespace, pod.name)


def read_pod(stored: Mapping[str, Any], wall_time: WallTime) -> Pod:
    """The pod that an object describes, without an ordinal.

    Raises:
        InputError: it is not of the form of a v1 Pod.
    """
    status: PodStatus = read_pod_status(stored.get("status") or {}, wall_time)
    return replace(
        pod_from_manifest(stored),
        uid=PodUID(stored["metadata"]["uid"]),
        status=status,
        deletion_grace_s=_deletion_grace_s(stored["metadata"]),
    )


def reread_pod(known: Pod, stored: Mapping[str, Any], wall_time: WallTime) -> Pod:
    """The same pod after somebody else has written it; what they left alone is not read again.

    Raises:
        InputError: it is not of the form of a v1 Pod.
    """
    if stored.get("spec") != known.manifest.get("spec"):
        pod = read_pod(stored, wall_time)
    else:
        pod = replace(known, deletion_grace_s=_deletion_grace_s(stored["metadata"]), manifest=stored)
        if (status := stored.get("status")) != known.manifest.get("status"):
            return replace(pod, status=read_pod_status(status or {}, wall_time))
    if stored.get("status") == known.manifest.get("status"):
        pod = replace(pod, status=known.status)
    return replace(pod, ordinal=known.ordinal)


def with_condition(stored: Mapping[str, Any], condition: JSON) -> JSON:
    """A pod's status with a condition in the place of the one of its type, or behind the others."""
    status = dict(stored.get("status") or {})
    conditions = list(status.get("conditions") or ())
    place = next((i for i, each in enumerate(conditions) if each["type"] == condition["type"]), len(conditions))
    conditions[place : place + 1] = [condition]
    return {**status, "conditions": conditions}


def deleting_json(stored: Mapping[str, Any], grace_s: int, wall_time: WallTime) -> JSON:
    """A pod object once its end was asked for, within so many seconds; asking again shortens what was left.

    Source: apiserver/pkg/registry/rest/delete.go, ``BeforeDelete`` (v0.34.4).
    """
    metadata, now = stored["metadata"], wall_time.elapsed()
    before = metadata.get("deletionTimestamp")
    if before is None:
        end = now + grace_s
        metadata = {**metadata, "generation": metadata["generation"] + 1}
    else:
        end = wall_time.seconds(before) - metadata["deletionGracePeriodSeconds"] + grace_s
        if end < now:
            end, grace_s = now, min(grace_s, 1)
    ending = {"deletionTimestamp": wall_time.date(end), "deletionGracePeriodSeconds": grace_s}
    return {**stored, "metadata": {**metadata, **ending}}


def _deletion_grace_s(metadata: Mapping[str, Any]) -> float | None:
    if metadata.get("deletionTimestamp") is None:
        return None
    return float(metadata.get("deletionGracePeriodSeconds") or 0)
