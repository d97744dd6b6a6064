"""Fields of pods and templates that an API server drops while their feature gate is off, without a word.

A cluster's gates stay as they are, so no object has a field whose gate is off.

Source: pkg/api/pod/util.go, ``dropDisabledFields``, ``dropDisabledPodStatusFields``; pkg/features/kube_features.go
(kubernetes v1.26.15 to v1.37.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ....model.version import FEATURE_GATES, Difference, Version
from ...objects.objects import JSON
from ...objects.pod_json import HAS_HOST_IPS
from ..rules import Places, Rules, drop

__all__ = [
    "COMPLETES_AT_CREATION",
    "HAS_APP_ARMOR",
    "RESTART_RULES",
    "drop_pod_fields",
    "drop_status_fields",
    "pod_gates_of",
]

HAS_APP_ARMOR: Final = "AppArmorFields"
RESTART_RULES: Final = "ContainerRestartRules"
COMPLETES_AT_CREATION: Final = "PodLevelResourcesFixDefaulting"

_SOURCE: Final = "pkg/features/kube_features.go, pkg/api/pod/util.go (kubernetes v1.34.4, v1.37.0)"

_SINCE_1_27: Final = Difference(
    "the API server keeps scheduling gates, and `matchLabelKeys` and `minDomains` of topology spread constraints, and "
    "takes the access mode `ReadWriteOncePod`",
    {"1.26": False, "1.27": True},
    _SOURCE,
)
_SINCE_1_30: Final = Difference(
    "the API server keeps hooks that sleep, and `appArmorProfile`", {"1.26": False, "1.30": True}, _SOURCE
)
_SINCE_1_31: Final = Difference(
    "the API server keeps `recursiveReadOnly` of mounts, and label keys of affinity",
    {"1.26": False, "1.31": True},
    _SOURCE,
)
_SINCE_1_32: Final = Difference(
    "names of variables may have any printable character of ASCII but `=`", {"1.26": False, "1.32": True}, _SOURCE
)
_SINCE_1_33: Final = Difference(
    "the API server keeps `hostUsers`, `procMount`, `resizePolicy`, `seLinuxChangePolicy` and "
    "`supplementalGroupsPolicy` of pods; hooks may sleep for 0 s, and search paths of DNS may have underscores",
    {"1.26": False, "1.33": True},
    _SOURCE,
)
_SINCE_1_34: Final = Difference(
    "the API server keeps the resources of whole pods and the generations that their status has seen, and merges label "
    "keys of topology spread constraints into their selectors",
    {"1.26": False, "1.34": True},
    _SOURCE,
)
_SINCE_1_35: Final = Difference(
    "the API server keeps volumes with images, variables from files and `hostnameOverride`",
    {"1.26": False, "1.35": True},
    _SOURCE,
)
_SINCE_1_36: Final = Difference(
    "rules of a container may restart all of its pod's, and addresses may not have leading zeros; the status of a pod "
    "may have resources of the whole pod, and messages about the health of its devices",
    {"1.26": False, "1.36": True},
    _SOURCE,
)
_SINCE_1_37: Final = Difference(
    "the API server keeps certificates and trust bundles in projected volumes, and takes `MountOption`",
    {"1.26": False, "1.37": True},
    _SOURCE,
)
_RESOURCES_SINCE_1_37: Final = Difference(
    "resources of a whole pod are completed when it is created, with limits that follow from those of its containers; "
    "an update that leaves them out keeps them, and one that leaves a part of them out is refused",
    {"1.26": False, "1.37": True},
    "pkg/features/kube_features.go; pkg/registry/core/pod/strategy.go; pkg/api/pod/util.go, "
    "``DefaultPodLevelResources`` (kubernetes v1.36.5, v1.37.2)",
)
_BY_GATE: Final = {
    "MatchLabelKeysInPodTopologySpread": _SINCE_1_27,
    "MinDomainsInPodTopologySpread": _SINCE_1_27,
    "PodSchedulingReadiness": _SINCE_1_27,
    "ReadWriteOncePod": _SINCE_1_27,
    "PodHostIPs": HAS_HOST_IPS,
    HAS_APP_ARMOR: _SINCE_1_30,
    "PodLifecycleSleepAction": _SINCE_1_30,
    "MatchLabelKeysInPodAffinity": _SINCE_1_31,
    "RecursiveReadOnlyMounts": _SINCE_1_31,
    "RelaxedEnvironmentVariableValidation": _SINCE_1_32,
    "InPlacePodVerticalScaling": _SINCE_1_33,
    "PodLifecycleSleepActionAllowZero": _SINCE_1_33,
    "ProcMountType": _SINCE_1_33,
    "RelaxedDNSSearchValidation": _SINCE_1_33,
    "SELinuxChangePolicy": _SINCE_1_33,
    "SupplementalGroupsPolicy": _SINCE_1_33,
    "UserNamespacesSupport": _SINCE_1_33,
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": _SINCE_1_34,
    "PodLevelResources": _SINCE_1_34,
    "PodObservedGenerationTracking": _SINCE_1_34,
    "VolumeAttributesClass": _SINCE_1_34,
    "EnvFiles": _SINCE_1_35,
    "HostnameOverride": _SINCE_1_35,
    "ImageVolume": _SINCE_1_35,
    "InPlacePodLevelResourcesVerticalScaling": _SINCE_1_36,
    "ResourceHealthStatusMessage": _SINCE_1_36,
    "RestartAllContainersOnContainerExits": _SINCE_1_36,
    "StrictIPCIDRValidation": _SINCE_1_36,
    "ClusterTrustBundleProjection": _SINCE_1_37,
    "PodCertificateRequest": _SINCE_1_37,
    COMPLETES_AT_CREATION: _RESOURCES_SINCE_1_37,
    "SELinuxMount": _SINCE_1_37,
}


def pod_gates_of(release: Version, chosen: Mapping[str, bool]) -> frozenset[str]:
    """The gates of pods that are on: those of the API server as by default, `FEATURE_GATES` as a user has set them."""
    by_default = frozenset(name for name, difference in _BY_GATE.items() if difference.at(release))
    return by_default.union(name for name, gate in FEATURE_GATES.items() if gate.is_on(release, chosen))


def drop_pod_fields(rules: Rules, spec: JSON) -> None:
    """Drop the fields of a spec, which is the caller's own, whose gates are off."""
    for gate, places in _IN_SPEC.items():
        if gate not in rules.gates:
            drop(places(spec))
    for gate, change in _CHANGES.items():
        # Before it has the gate of restart rules, an API server refuses what it drops without the gate.
        if gate not in rules.gates and (gate != RESTART_RULES or FEATURE_GATES[gate].exists(rules.release)):
            change(spec)


def _containers(spec: JSON) -> Iterator[JSON]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _of_spec(*names: str) -> Callable[[JSON], Places]:
    return lambda spec: [(spec, names)]


def _of_security(*names: str) -> Callable[[JSON], Places]:
    return lambda spec: [(spec.get("securityContext") or {}, names)]


def _of_containers(*names: str) -> Callable[[JSON], Places]:
    return lambda spec: [(container, names) for container in _containers(spec)]


def _claims(spec: JSON) -> Places:
    yield spec, ("resourceClaims",)
    for container in _containers(spec):
        yield container.get("resources") or {}, ("claims",)


def _of_spread(*names: str) -> Callable[[JSON], Places]:
    return lambda spec: [(each, names) for each in spec.get("topologySpreadConstraints") or ()]


def _app_armor(spec: JSON) -> Places:
    return [(part.get("securityContext") or {}, ("appArmorProfile",)) for part in (spec, *_containers(spec))]


def _label_keys_of_affinity(spec: JSON) -> Places:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = (spec.get("affinity") or {}).get(kind) or {}
        found = [each.get("podAffinityTerm") or {} for each in terms.get(_PREFERRED) or ()]
        for term in (*found, *(terms.get(_REQUIRED) or ())):
            yield term, ("matchLabelKeys", "mismatchLabelKeys")


def _of_volumes(kind: str, *names: str) -> Callable[[JSON], Places]:
    return lambda spec: [(volume.get(kind) or {}, names) for volume in spec.get("volumes") or ()]


def _sources(spec: JSON) -> Iterator[JSON]:
    """The sources of projected volumes."""
    for volume in spec.get("volumes") or ():
        yield from (volume.get("projected") or {}).get("sources") or ()


def _projected(name: str) -> Callable[[JSON], Places]:
    return lambda spec: [(source, (name,)) for source in _sources(spec)]


def _users_of_files(spec: JSON) -> Places:
    """The owners of the files of volumes, whole ones and files by their keys."""
    for volume in spec.get("volumes") or ():
        for kind in (*_WITH_FILES, "projected"):
            yield volume.get(kind) or {}, ("defaultUser",)
    for part in (*(spec.get("volumes") or ()), *_sources(spec)):
        for kind in _WITH_FILES:
            for item in (part.get(kind) or {}).get("items") or ():
                yield item, ("user",)
    for source in _sources(spec):
        for kind in ("serviceAccountToken", "clusterTrustBundle", "podCertificate"):
            yield source.get(kind) or {}, ("user",)


def _of_mounts(name: str) -> Callable[[JSON], Places]:
    return lambda spec: [
        (mount, (name,)) for container in _containers(spec) for mount in container.get("volumeMounts") or ()
    ]


def _probes(spec: JSON) -> Iterator[JSON]:
    for container in _containers(spec):
        for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
            yield container.get(kind) or {}


def _modes_of_probes(spec: JSON) -> Places:
    return [(probe.get("grpc") or {}, ("mode",)) for probe in _probes(spec)]


def _protocols_of_probes(spec: JSON) -> Places:
    """Those of hooks, too."""
    hooks = (container.get("lifecycle") or {} for container in _containers(spec))
    handlers = (each.get(kind) or {} for each in hooks for kind in ("postStart", "preStop"))
    return [(handler.get("httpGet") or {}, ("protocol",)) for handler in (*_probes(spec), *handlers)]


def _sleeps(spec: JSON) -> Places:
    """Hooks that sleep; they stay, and have no handler without it."""
    lifecycles = [container.get("lifecycle") or {} for container in _containers(spec)]
    return [(each.get(name) or {}, ("sleep",)) for each in lifecycles for name in ("postStart", "preStop")]


def _files_of_variables(spec: JSON) -> Places:
    return [
        (variable.get("valueFrom") or {}, ("fileKeyRef",))
        for container in _containers(spec)
        for variable in container.get("env") or ()
    ]


_WITH_FILES: Final = ("secret", "configMap", "downwardAPI")
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_IN_SPEC: Final[Mapping[str, Callable[[JSON], Places]]] = {
    "AtomicWriteVolumeUserFields": _users_of_files,
    "EmptyDirVolumeMode": _of_volumes("emptyDir", "mode"),
    "EvictionRequestAPI": _of_spec("evictionResponders"),
    "GRPCContainerProbeTLS": _modes_of_probes,
    "GenericWorkload": _of_spec("schedulingGroup", "workloadRef"),
    "H2CContainerProbe": _protocols_of_probes,
    "VolumeBindMountOptions": _of_mounts("bindMountOptions"),
    "UserNamespacesSupport": _of_spec("hostUsers"),
    "SupplementalGroupsPolicy": _of_security("supplementalGroupsPolicy"),
    "PodLevelResources": _of_spec("resources"),
    "MatchLabelKeysInPodTopologySpread": _of_spread("matchLabelKeys"),
    "MinDomainsInPodTopologySpread": _of_spread("minDomains"),
    "PodSchedulingReadiness": _of_spec("schedulingGates"),
    HAS_APP_ARMOR: _app_armor,
    "MatchLabelKeysInPodAffinity": _label_keys_of_affinity,
    "DynamicResourceAllocation": _claims,
    "ClusterTrustBundleProjection": _projected("clusterTrustBundle"),
    "PodCertificateRequest": _projected("podCertificate"),
    "InPlacePodVerticalScaling": _of_containers("resizePolicy"),
    "PodLifecycleSleepAction": _sleeps,
    "RecursiveReadOnlyMounts": _of_mounts("recursiveReadOnly"),
    "HostnameOverride": _of_spec("hostnameOverride"),
    "EnvFiles": _files_of_variables,
    "SELinuxChangePolicy": _of_security("seLinuxChangePolicy"),
}
"""Gate -> its fields in the spec."""


def _reset_proc_mounts(spec: JSON) -> None:
    for container in _containers(spec):
        security = container.get("securityContext") or {}
        if security.get("procMount") is not None:
            security["procMount"] = "Default"


def _drop_sidecars(spec: JSON) -> None:
    for container in spec.get("initContainers") or ():
        container.pop("restartPolicy", None)


def _drop_restart_rules(spec: JSON) -> None:
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") not in (None, "Always"):
            del container["restartPolicy"]
        container.pop("restartPolicyRules", None)
    for kind in ("containers", "ephemeralContainers"):
        drop((container, ("restartPolicy", "restartPolicyRules")) for container in spec.get(kind) or ())


def _drop_stop_signals(spec: JSON) -> None:
    """Drop signals, and the lifecycles of which nothing is left."""
    for container in _containers(spec):
        lifecycle = container.get("lifecycle") or {}
        if lifecycle.pop("stopSignal", None) is not None and not lifecycle:
            del container["lifecycle"]


def _drop_images(spec: JSON) -> None:
    names = {volume.get("name") for volume in spec.get("volumes") or () if volume.get("image") is not None}
    if not names:
        return
    spec["volumes"] = [volume for volume in spec["volumes"] if volume.get("image") is None]
    for container in _containers(spec):
        if container.get("volumeMounts"):
            container["volumeMounts"] = [each for each in container["volumeMounts"] if each.get("name") not in names]


_CHANGES: Final[Mapping[str, Callable[[JSON], None]]] = {
    "ProcMountType": _reset_proc_mounts,
    "SidecarContainers": _drop_sidecars,
    RESTART_RULES: _drop_restart_rules,
    "ImageVolume": _drop_images,
    "ContainerStopSignals": _drop_stop_signals,
}
"""Gate -> what else becomes of a spec without it, in the order in which it is done."""


def drop_status_fields(rules: Rules, status: JSON) -> None:
    """Drop the fields of a pod's status, which is the caller's own, whose gates are off."""
    statuses = [
        each
        for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for each in status.get(kind) or ()
    ]
    for gate, names in _OF_STATUSES.items():
        if gate not in rules.gates:
            drop((each, names) for each in statuses)
    for gate, names in _OF_STATUS.items():
        if gate not in rules.gates:
            drop([(status, names)])
    if "ResourceHealthStatusMessage" not in rules.gates:
        healths = (resource for each in statuses for resource in each.get("allocatedResourcesStatus") or ())
        drop((device, ("message",)) for health in healths for device in health.get("resources") or ())
    if "ImageVolumeWithDigest" not in rules.gates:
        drop((mount, ("volumeStatus",)) for each in statuses for mount in each.get("volumeMounts") or ())
    if "PodObservedGenerationTracking" not in rules.gates:
        drop((part, ("observedGeneration",)) for part in (status, *(status.get("conditions") or ())))


_OF_STATUSES: Final = {
    "InPlacePodVerticalScaling": ("resources", "allocatedResources"),
    "RecursiveReadOnlyMounts": ("volumeMounts",),
    "ResourceHealthStatus": ("allocatedResourcesStatus",),
    "SupplementalGroupsPolicy": ("user",),
}
_OF_STATUS: Final = {
    "CSIVolumeHealth": ("volumeHealth",),
    "DRAExtendedResource": ("extendedResourceClaimStatus",),
    "DRANodeAllocatableResources": ("nodeAllocatableResourceClaimStatuses",),
    "DynamicResourceAllocation": ("resourceClaimStatuses",),
    "InPlacePodLevelResourcesVerticalScaling": ("resources", "allocatedResources"),
}
