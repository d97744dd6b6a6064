"""Pods as API objects: the typed pods of kubelets and scheduler are read from them, their status is written to them.

Source: kubelet/kubelet_pods.go, ``generateAPIPodStatus``, ``convertToAPIContainerStatuses``;
kubelet/status/status_manager.go, ``updateStatusInternal``, ``mergePodStatus`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from ...model.pod import Pod, PodUID, pod_from_manifest
from ...model.pod_status import (
    Condition,
    ConditionType,
    ContainerState,
    ContainerStatus,
    PodPhase,
    PodStatus,
    ResourceHealth,
    ResourceStatus,
    Running,
    Terminated,
    Waiting,
)
from ...model.resources import ResourceName
from ...model.version import Difference, Version
from .container_images import container_id, image_id, image_name
from .objects import JSON, Key, WallTime

__all__ = [
    "CLEARS_NOMINATION",
    "HAS_HOST_IPS",
    "KEEPS_CLASS_OF_REJECTED",
    "OBSERVES_GENERATION",
    "WrittenStatuses",
    "condition_json",
    "has_ended",
    "kubelet_status_json",
    "pod_key",
    "read_pod",
    "read_pod_status",
    "reread_pod",
    "with_condition",
]

CLEARS_NOMINATION: Final = Difference(
    "a pod's `nominatedNodeName` is cleared when it is bound",
    {"1.26": False, "1.35": True},
    "pkg/registry/core/pod/storage/storage.go, ``setPodNodeAndMetadata``, with the gate "
    "ClearingNominatedNodeNameAfterBinding (kubernetes v1.34.4, v1.35.4)",
)
HAS_HOST_IPS: Final = Difference(
    "a pod's status has all addresses of its node, `hostIPs`",
    {"1.26": False, "1.29": True},
    "pkg/features/kube_features.go, ``PodHostIPs`` (kubernetes v1.28.15, v1.29.6)",
)
OBSERVES_GENERATION: Final = Difference(
    "a pod's status and its conditions have the generation of the pod that they are about",
    {"1.26": False, "1.34": True},
    "pkg/features/kube_features.go, ``PodObservedGenerationTracking`` (kubernetes v1.34.4)",
)
_REPORTS_CONTAINER_RESOURCES: Final = Difference(
    "a container's status repeats the resources that it requested",
    {"1.26": False, "1.33": True},
    "pkg/features/kube_features.go, ``InPlacePodVerticalScaling`` (kubernetes v1.34.4)",
)
_REPORTS_VOLUME_MOUNTS: Final = Difference(
    "a container's status repeats its volume mounts",
    {"1.26": False, "1.31": True},
    "pkg/features/kube_features.go, ``RecursiveReadOnlyMounts`` (kubernetes v1.34.4)",
)

KEEPS_CLASS_OF_REJECTED: Final = Difference(
    "the status of a pod that its node rejects keeps `qosClass`, which no update of a status may change",
    {"1.26": False, "1.32": True},
    "kubelet/kubelet.go, ``rejectPod``; pkg/registry/core/pod/strategy.go, ``podStatusStrategy.PrepareForUpdate``; "
    "pkg/apis/core/validation/validation.go, ``ValidatePodStatusUpdate`` (kubernetes v1.31.14, v1.32.13)",
)

_BY_KUBELET: Final = frozenset(ConditionType) - {ConditionType.DISRUPTION_TARGET}
_NO_SPEC: Final[Mapping[str, Any]] = MappingProxyType({})
_UNSEEN_END: Final = "ContainerStatusUnknown"
_KEPT: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus", "ephemeralContainerStatuses")
_PHASES: Final = frozenset(phase.value for phase in PodPhase)
_CONDITION_TYPES: Final = frozenset(type_.value for type_ in ConditionType)


class _WrittenStatus(NamedTuple):
    """The status of a container, and all that it follows from but for the pod's uid."""

    status: ContainerStatus
    version: Version
    spec: Mapping[str, Any]
    json: JSON


WrittenStatuses: TypeAlias = dict[str, _WrittenStatus]
"""Container -> its status as it was written last."""


def kubelet_status_json(
    stored: Mapping[str, Any],
    status: PodStatus,
    version: Version,
    wall_time: WallTime,
    addresses: tuple[str, str],
    written: WrittenStatuses,
) -> JSON:
    """The status that a pod has once its kubelet has written there.

    Conditions of others stay, before the kubelet's own; what no kubelet knows of is gone, the nominated node as well.

    Args:
        stored: the pod as it stands.
        status: what the kubelet says now.
        version: the kubelet's.
        wall_time: the cluster's date.
        addresses: the node's and the pod's; empty where there is none.
        written: the pod's, for as long as it is there; its states share what has not changed, as there may be
            thousands of containers, one of which has.
    """
    old = stored.get("status") or {}
    generation = stored["metadata"].get("generation", 0) if OBSERVES_GENERATION.at(version) else 0
    now = wall_time.now()
    by_type = {condition["type"]: condition for condition in old.get("conditions") or ()}
    conditions = [condition for type_, condition in by_type.items() if type_ not in _BY_KUBELET]
    for condition in status.conditions:
        if condition.type in _BY_KUBELET:
            conditions.append(condition_json(condition, by_type.get(condition.type), now, generation))
    # A status without conditions is that of a pod that was rejected.
    keeps_class = bool(status.conditions) or KEEPS_CLASS_OF_REJECTED.at(version)
    new: JSON = {name: old[name] for name in (*_KEPT, *(["qosClass"] if keeps_class else [])) if name in old}
    new["phase"] = status.phase.value
    new["startTime"] = old.get("startTime") or now
    if generation:
        new["observedGeneration"] = generation
    if conditions:
        new["conditions"] = conditions
    if status.conditions:
        new.update(_addresses(*addresses, version))
    new.update(_texts(status.reason, status.message))
    specs = _specs(stored)
    writer = _ContainerStatuses(str(stored["metadata"]["uid"]), version, wall_time, written)
    for name, statuses in (("initContainerStatuses", status.init_containers), ("containerStatuses", status.containers)):
        if statuses:
            new[name] = [writer.container_json(each, specs.get(each.name, _NO_SPEC)) for each in statuses]
    return new


def condition_json(condition: Condition, old: Mapping[str, Any] | None, now: str, generation: int) -> JSON:
    """A condition in the place of the one before; its transition time is that of the last other status."""
    status = "True" if condition.is_true else "False"
    is_same = old is not None and old.get("status") == status
    new: JSON = {
        "type": condition.type.value,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": old.get("lastTransitionTime", now) if old is not None and is_same else now,
    }
    if generation:
        new["observedGeneration"] = generation
    return new | _texts(condition.reason, condition.message)


def read_pod_status(status: Mapping[str, Any], wall_time: WallTime) -> PodStatus:
    """The status of a pod object; times are whole seconds.

    Any client may write a status, and the API server accepts most of it: an invalid phase counts as Pending, a
    condition of an unknown type is left out.
    """
    phase = status.get("phase")
    return PodStatus(
        PodPhase(phase) if phase in _PHASES else PodPhase.PENDING,
        str(status.get("reason") or ""),
        str(status.get("message") or ""),
        tuple(_conditions(status.get("conditions") or ())),
        tuple(_container(each, wall_time) for each in status.get("initContainerStatuses") or ()),
        tuple(_container(each, wall_time) for each in status.get("containerStatuses") or ()),
    )


def _conditions(conditions: Iterable[Mapping[str, Any]]) -> Iterable[Condition]:
    for each in conditions:
        if each.get("type") in _CONDITION_TYPES:
            type_, is_true = ConditionType(each["type"]), each.get("status") == "True"
            yield Condition(type_, is_true, str(each.get("reason") or ""), str(each.get("message") or ""))


def _container(status: Mapping[str, Any], wall_time: WallTime) -> ContainerStatus:
    last = _state(status.get("lastState") or {}, wall_time)
    return ContainerStatus(
        name=str(status.get("name")),
        state=_state(status.get("state") or {}, wall_time),
        last_state=last if isinstance(last, Terminated) else None,
        is_ready=bool(status.get("ready")),
        restart_count=int(status.get("restartCount") or 0),
        is_started=bool(status.get("started")),
        resources=tuple(_resource(each) for each in status.get("allocatedResourcesStatus") or ()),
    )


def _resource(status: Mapping[str, Any]) -> ResourceStatus:
    devices = [
        ResourceHealth(each.get("resourceID", ""), each.get("health", "")) for each in status.get("resources") or ()
    ]
    return ResourceStatus(ResourceName(status.get("name", "")), tuple(devices))


def _state(state: Mapping[str, Any], wall_time: WallTime) -> ContainerState:
    def seconds(date: str | None) -> float:
        return 0.0 if date is None else wall_time.seconds(date)

    running, ended, waiting = state.get("running"), state.get("terminated"), state.get("waiting") or {}
    if running is not None:
        return Running(seconds(running.get("startedAt")))
    if ended is None:
        return Waiting(str(waiting.get("reason") or ""), str(waiting.get("message") or ""))
    return Terminated(
        int(ended.get("exitCode", 0)),
        str(ended.get("reason") or ""),
        seconds(ended.get("startedAt")),
        seconds(ended.get("finishedAt")),
        str(ended.get("message") or ""),
    )


class _ContainerStatuses:
    """Writes the statuses of one pod's containers."""

    def __init__(self, uid: str, version: Version, wall_time: WallTime, written: WrittenStatuses) -> None:
        self._uid = uid
        self._version = version
        self._wall_time = wall_time
        self._written = written

    def container_json(self, status: ContainerStatus, spec: Mapping[str, Any]) -> JSON:
        known = self._written.get(status.name)
        if known is not None and known.spec is spec and known[:2] == (status, self._version):
            return known.json
        new = self._new_json(status, spec)
        self._written[status.name] = _WrittenStatus(status, self._version, spec, new)
        return new

    def _new_json(self, status: ContainerStatus, spec: Mapping[str, Any]) -> JSON:
        image = str(spec.get("image") or "")
        # What waits after an end is still the container that ended, and its end the last one.
        is_between = isinstance(status.state, Waiting) and status.last_state is not None
        current = container_id(self._uid, status.name, status.restart_count)
        previous = current if is_between else container_id(self._uid, status.name, status.restart_count - 1)
        new: JSON = {
            "name": status.name,
            "image": image,
            "imageID": "",
            "lastState": {} if status.last_state is None else self._state_json(status.last_state, previous),
            "ready": status.is_ready,
            "restartCount": status.restart_count,
            "started": status.is_started,
            "state": self._state_json(status.state, current),
        }
        if is_between or not isinstance(status.state, Waiting):
            new.update(image=image_name(image), imageID=image_id(image), containerID=current)
            if _REPORTS_CONTAINER_RESOURCES.at(self._version):
                new.update(_resources_json(spec.get("resources") or {}))
        if _REPORTS_VOLUME_MOUNTS.at(self._version) and spec.get("volumeMounts"):
            new["volumeMounts"] = [_mount_json(mount) for mount in spec["volumeMounts"]]
        if status.resources:
            new["allocatedResourcesStatus"] = [_health_json(each) for each in status.resources]
        return new

    def _state_json(self, state: ContainerState, id_: str) -> JSON:
        match state:
            case Waiting(reason, message):
                return {"waiting": _texts(reason, message)}
            case Running(started_at):
                return {"running": {"startedAt": self._wall_time.date(started_at)}}
            case Terminated(reason=reason, message=message):
                is_unseen = reason == _UNSEEN_END
                ended: JSON = {
                    "exitCode": state.exit_code,
                    "startedAt": None if is_unseen else self._wall_time.date(state.started_at),
                    "finishedAt": None if is_unseen else self._wall_time.date(state.finished_at),
                }
                if not is_unseen:
                    ended["containerID"] = id_
                return {"terminated": ended | _texts(reason, message)}


def _specs(stored: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    spec = stored.get("spec") or {}
    containers: Sequence[Mapping[str, Any]] = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return {container["name"]: container for container in containers}


def _resources_json(resources: Mapping[str, Any]) -> JSON:
    new: JSON = {"resources": resources}
    if resources.get("requests"):
        new["allocatedResources"] = resources["requests"]
    return new


def _mount_json(mount: Mapping[str, Any]) -> JSON:
    new: JSON = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        new.update(readOnly=True, recursiveReadOnly="Disabled")
    return new


def _health_json(resource: ResourceStatus) -> JSON:
    devices = [{"resourceID": device.resource_id, "health": device.health} for device in resource.resources]
    return {"name": str(resource.name), "resources": devices}


def _addresses(host: str, pod: str, version: Version) -> JSON:
    new: JSON = {}
    if host:
        new.update(hostIP=host, **({"hostIPs": [{"ip": host}]} if HAS_HOST_IPS.at(version) else {}))
    if pod:
        new.update(podIP=pod, podIPs=[{"ip": pod}])
    return new


def _texts(reason: str, message: str) -> JSON:
    return {name: text for name, text in (("reason", reason), ("message", message)) if text}


def pod_key(pod: Pod) -> Key:
    """The place of a pod among the objects."""
    return Key("pods", pod.namespace, pod.name)


def has_ended(stored: Mapping[str, Any]) -> bool:
    """Whether a pod's phase is one that it does not leave."""
    phase = (stored.get("status") or {}).get("phase")
    return phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)


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
    """The same pod after another client has written it; unchanged parts are not read again.

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


def _deletion_grace_s(metadata: Mapping[str, Any]) -> float | None:
    if metadata.get("deletionTimestamp") is None:
        return None
    return float(metadata.get("deletionGracePeriodSeconds") or 0)
