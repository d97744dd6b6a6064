"""What differs between Kubernetes minors, as data.

A node names its minor (``"1.34"``), or one of its patches (``"1.34.7"``) where a fix came in between; code asks the
`Version` for a behaviour and never compares numbers itself. Each field says where its value was read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from .errors import InputError

__all__ = ["DEFAULT", "FEATURE_GATES", "SUPPORTED", "Release", "Version", "release", "version"]

_PATCHES: Final[Mapping[int, int]] = {
    26: 15,
    27: 16,
    28: 15,
    29: 6,
    30: 14,
    31: 14,
    32: 13,
    33: 13,
    34: 4,
    35: 4,
    36: 3,
    37: 0,
}
"""Minor -> the patch that its name stands for: the one whose source was read."""
SUPPORTED: Final = tuple(f"1.{minor}" for minor in _PATCHES)
DEFAULT: Final = "1.34"


_FEATURE_GATES: Final[Mapping[str, range]] = {
    "ContainerRestartRules": range(34, 38),
    "DevicePluginCDIDevices": range(28, 34),
    "KubeletPodResourcesGet": range(27, 38),
    "KubeletPodResourcesListUseActivePods": range(34, 38),
    "PodReadyToStartContainersCondition": range(28, 38),
    "ReduceDefaultCrashLoopBackOffDecay": range(33, 38),
    "ResourceHealthStatus": range(31, 38),
    "SidecarContainers": range(28, 37),
    "TopologyManagerPolicyAlphaOptions": range(26, 38),
    "TopologyManagerPolicyBetaOptions": range(26, 38),
    "TopologyManagerPolicyOptions": range(26, 38),
}
"""Gate that changes what a simulated kubelet does -> the minors that have it."""
FEATURE_GATES: Final = tuple(_FEATURE_GATES)

Release: TypeAlias = tuple[int, int]
"""Minor and patch, to be compared: (34, 4) is v1.34.4."""


@dataclass(frozen=True, slots=True)
class Version:
    """The observable behaviour of one Kubernetes minor.

    Attributes:
        minor: for instance ``1.34``, also if a patch was given.
        clears_only_sockets: at its start the device manager removes sockets only; before, every file except the
            checkpoint. Source: devicemanager/manager.go, ``CleanupPluginDirectory`` (kubernetes v1.32.13, v1.33.13).
        failed_scheduling_ends_twice: the FailedScheduling text ends with two full stops, as the text of the preemption
            attempt has its own. Source: scheduler/framework/types.go, ``FitError.Error`` (kubernetes v1.28.15,
            v1.29.6).
        tries_dynamic_resources: dynamic resource allocation is on by default, so its "no new claims to deallocate" is
            in the FailedScheduling text. Source: pkg/features/kube_features.go (kubernetes v1.34.4).
        knows_unresolvable_requests: a request above the node's allocatable excludes the node from preemption, and the
            text says so. Source: noderesources/fit.go, ``fitsRequest`` (kubernetes v1.33.13, v1.34.4).
        created_event: message of the Created event of a container, with ``{name}`` for its name.
        started_event: message of the Started event. Source of both: kuberuntime/kuberuntime_container.go,
            ``startContainer`` (kubernetes v1.29.6, v1.30.14, v1.34.4, v1.35.4).
        crashes_on_vanished_devices: a device that leaves its plugin's list during its Allocate call crashes the kubelet
            with a nil pointer. Source: devicemanager/manager.go, ``allocateContainerResources``: devices are values up
            to v1.33.4 and pointers from v1.34.4.
        has_queueing_hints: a pending pod is retried only after a change that may help it; before, after every change of
            a node that it now fits, and after every removal of a pod. Source: scheduler/scheduler.go,
            ``buildQueueingHintMap``; eventhandlers.go, ``preCheckForNode`` (kubernetes v1.31.14), behind the gate
            SchedulerQueueingHints, on by default from 1.32 (pkg/features/kube_features.go).
        pops_from_backoff: an idle scheduler retries a pod before its back-off is over. Source:
            pkg/features/kube_features.go, ``SchedulerPopFromBackoffQ`` (kubernetes v1.32.13, v1.33.13).
        untolerated_taint: the scheduler's message for a taint, with ``{key}`` and ``{value}``. Source:
            tainttoleration/taint_toleration.go, ``Filter`` (kubernetes v1.33.13, v1.34.4).
        counts_filtered_out_nodes: the FailedScheduling text counts the nodes that a pod excludes by name. Source:
            scheduler/schedule_one.go, ``findNodesThatFitPod`` (kubernetes v1.31.14, v1.32.13).
        spares_best_effort_balance: balanced allocation does not score pods without CPU and memory requests. Source:
            noderesources/balanced_allocation.go, ``PreScore`` (kubernetes v1.32.13, v1.33.13).
        preempted_event: message of the Preempted event of a victim, with ``{pod}`` for the uid of the preempting pod
            and ``{node}``. Source: scheduler/framework/preemption/preemption.go (kubernetes v1.28.15, v1.29.6).
        checks_devices_of_known_pods: a pod that already has devices is admitted only if its plugin is registered and
            the devices are healthy; before, if the checkpoint has them. Source: devicemanager/manager.go,
            ``devicesToAllocate`` (kubernetes/kubernetes#116376, v1.26.5, v1.27.2, v1.28.0).
        spares_running_containers: after a restart of the kubelet this check skips running containers. Source:
            devicemanager/manager.go, ``isContainerAlreadyRunning`` (kubernetes/kubernetes#118635, v1.26.9, v1.27.6,
            v1.28.0).
        spares_restarted_containers: it also skips containers that had been restarted before. Source:
            kubernetes/kubernetes #135485 (v1.34.7, v1.35.4, v1.36.0).
        prefer_closest_level: the maturity of the topology manager's option ``prefer-closest-numa-nodes``: ``alpha`` and
            ``beta`` have a gate each, ``stable`` has none.
        max_numa_nodes_level: the same for ``max-allowable-numa-nodes``; None if the option does not exist. Source of
            both: topologymanager/policy_options.go (kubernetes v1.27.16, v1.28.15, v1.30.14, v1.31.14, v1.32.13,
            v1.34.4, v1.35.4).
        has_topology_options: the gates TopologyManagerPolicyOptions and TopologyManagerPolicyBetaOptions are on by
            default. Source: pkg/features/kube_features.go (kubernetes v1.27.16, v1.28.15).
        topology_options_gates: the gates that the error names when options are set with TopologyManagerPolicyOptions
            off. Source: cmd/kubelet/app/server.go, ``run`` (kubernetes v1.26.15, v1.27.16).
        topology_option_level_error: the error for an option whose level's gate is off, with ``{level}`` or ``{Level}``,
            and ``{option}``. Source: topologymanager/policy_options.go (kubernetes v1.32.13, v1.33.13).
        checks_topology_options_always: options are checked with the policy none too. Source:
            topologymanager/topology_manager.go, ``NewManager`` (kubernetes v1.27.16, v1.28.15).
        hints_only_at_devices: hints contain the NUMA nodes that have devices of the resource; before, all nodes of the
            machine. Source: devicemanager/topology_hints.go (kubernetes v1.35.4, v1.36.3).
        observes_generation: a pod's status and its conditions have the observed generation of the pod. Source:
            pkg/features/kube_features.go, ``PodObservedGenerationTracking`` (kubernetes v1.34.4).
        reports_container_resources: a container's status repeats its resource requests. Source: as above,
            ``InPlacePodVerticalScaling`` (kubernetes v1.34.4).
        reports_volume_mounts: a container's status repeats its volume mounts. Source: as above,
            ``RecursiveReadOnlyMounts`` (kubernetes v1.34.4).
        kubelet_version: the kubelet version that the node reports, with the patch release.
        retries_failed_registrations: a plugin that the plugin watcher found and failed to register is retried; before,
            it counts as registered until its socket is recreated. Source: pluginmanager/
            operationexecutor/operation_generator.go, ``GenerateRegisterPluginFunc`` (kubernetes v1.35.4, v1.36.3).
        has_device_plugin_check: /healthz has the check ``device-plugin``. Source: kubelet/server/server.go,
            ``InstallAuthNotRequiredHandlers``; devicemanager/manager.go, ``GetHealthChecker`` (kubernetes v1.31.14,
            v1.32.13).
        reports_registration_failure: this check reports why no plugin can register. Source:
            devicemanager/plugin/v1beta1/server.go, ``setUnhealthy`` (kubernetes/kubernetes#135153, v1.32.11, v1.33.7,
            v1.34.3, v1.35.0).
        limits_pod_resources_rate: PodResources is limited to 100 calls a second. Source: kubelet/server/server.go,
            ``ListenAndServePodResources`` (kubernetes v1.26.15, v1.27.16).
        has_pod_resources_get: PodResources has the method Get. Source: apis/podresources/server_v1.go (kubernetes
            v1.26.15, v1.27.16).
        pod_resources_get_gate: default of the gate KubeletPodResourcesGet, None where Get has no gate. Source:
            pkg/features/kube_features.go; apis/podresources/server_v1.go, ``Get`` (kubernetes v1.33.13, v1.34.4,
            v1.35.4, v1.36.3).
        list_active_pods_gate: default of the gate KubeletPodResourcesListUseActivePods, with which List leaves out pods
            that have ended; None where there is no gate and all are listed. Source: as above, ``List`` (kubernetes
            v1.33.13, v1.34.4).
        lists_sidecars: PodResources lists restartable init containers. Source: as above, ``List`` (kubernetes v1.29.6,
            v1.30.14).
        counts_get_allocatable_twice: GetAllocatableResources counts as two requests in the metrics. Source: as above,
            ``GetAllocatableResources`` (kubernetes v1.26.15, v1.27.16).
        has_topology_metrics: /metrics counts the topology manager's admissions. Source: kubelet/metrics/metrics.go
            (kubernetes v1.26.15, v1.27.16).
        has_alignment_metrics: /metrics counts the admissions of single-numa-node. Source: as above (kubernetes
            v1.31.14, v1.32.13).
        has_alignment_failure_metrics: /metrics counts its rejections. Source: as above (kubernetes v1.32.13, v1.33.13).
        keys_endpoints_by_socket: several plugins can serve one resource on different sockets; before, the newest
            replaces the others. Source: devicemanager/manager.go, ``PluginConnected``, ``PluginDisconnected``;
            plugin/v1beta1/handler.go (kubernetes v1.36.3, v1.37.0).
        stops_dialling_with_caller: when the caller cancels Register, dialing the plugin and asking for its options end;
            before, both continue. Source: plugin/v1beta1/server.go, ``Register`` (kubernetes v1.34.4, v1.35.4).
        reads_old_checkpoint: a checkpoint of 1.19 or older is read. Source: devicemanager/manager.go,
            ``readCheckpoint`` (kubernetes v1.30.14, v1.31.14).
        counts_pod_in_admission: the pod that requested devices last counts as active when devices of ended pods are
            freed. Source: devicemanager/manager.go, ``pendingAdmissionPod`` (kubernetes v1.31.14, v1.32.13).
        crashes_when_freed_while_asking: a kubelet crashes if its allocated devices are recomputed during
            GetPreferredAllocation. Source: devicemanager/manager.go, ``devicesToAllocate`` (kubernetes v1.29.6,
            v1.30.14).
        reads_with_gogo: messages are parsed by code of the gogo compiler: text need not be UTF-8, a known field of a
            wrong type is an error, and errors have different texts. Source: k8s.io/kubelet,
            pkg/apis/deviceplugin/v1beta1/ api.pb.go, and those of podresources and pluginregistration (v0.33.13,
            v0.34.4).
        health_update_queue: size of the queue of health changes for pods; when it is full, changes are dropped. With 0
            the reader of lists waits instead; None: there is no queue. Source: devicemanager/manager.go,
            ``newManagerImpl``, ``genericDeviceUpdateCallback`` (kubernetes v1.30.14, v1.31.14, v1.32.13).
        resource_health_status: default of the gate ResourceHealthStatus. Source: pkg/features/kube_features.go
            (kubernetes v1.31.14, v1.35.4, v1.36.3).
        finds_pods_by_resource: a change of health is reported to the pod that holds the device of this resource;
            before, to one that holds a device of that id of any resource. Source: devicemanager/pod_devices.go,
            ``getPodAndContainerForDevice`` (kubernetes v1.36.3, v1.37.0).
        sidecars_keep_devices: a restartable init container keeps its devices; before, the pod's next container reuses
            them, as those of any init container. Source: devicemanager/manager.go, ``Allocate`` (kubernetes v1.28.15,
            v1.29.6).
        cdi_devices_gate: default of the gate DevicePluginCDIDevices: a plugin may answer Allocate with CDI devices;
            None where it may not. Source: pkg/features/kube_features.go; devicemanager/pod_devices.go,
            ``deviceRunContainerOptions`` (kubernetes v1.27.16, v1.28.15, v1.29.6).
        annotates_cdi_devices: the container runtime also gets them in an annotation. Source: as above (kubernetes
            v1.28.15, v1.31.14, v1.32.13).
        has_container_restart_rules: default of the gate ContainerRestartRules: a container's own restart policy and
            rules take effect. Source: pkg/features/kube_features.go (kubernetes v1.34.4, v1.35.4).
        has_ready_to_start_condition: default of the gate PodReadyToStartContainersCondition. Source: as above
            (kubernetes v1.28.15, v1.29.6).
        ends_deleted_pods: a deleted pod reaches a terminal phase before its object is removed. Source:
            kubelet/kubelet_pods.go, ``getPhase``; status/status_manager.go, ``TerminatePod`` (kubernetes v1.26.15,
            v1.27.16).
        rejection_event_is_format: the message of the Event about a rejected pod is used as a Go format, so a per cent
            sign in it is interpreted. Source: kubelet/kubelet.go, ``rejectPod`` (kubernetes v1.35.4, v1.36.3).
        forgives_init_requests: requests of init containers and sidecars for resources that the node does not have are
            ignored at admission, as those of app containers. Source: kubelet/lifecycle/predicate.go,
            ``removeMissingExtendedResources`` (kubernetes v1.30.14, v1.31.14).
        sidecar_containers: default of the gate SidecarContainers, without it a pod that has a restartable init
            container is rejected; None where the kubelet treats it as any other init container. Source:
            pkg/features/kube_features.go; kubelet/lifecycle/predicate.go, ``Admit`` (kubernetes v1.27.16, v1.28.15,
            v1.29.6).
        metrics_escaping: the escaping scheme in the content type of /metrics; None where there is none. Source:
            prometheus/common, expfmt/encode.go, ``Negotiate`` (v0.44.0, v0.55.0, v0.62.0); go.mod (kubernetes v1.30.14,
            v1.31.14, v1.33.13).
        has_admission_rejections_metric: /metrics counts rejected pods by reason. Source: kubelet/metrics/metrics.go
            (kubernetes v1.31.14, v1.32.13).
        feature_gates: the gates of the version that change what a simulated kubelet does. Source:
            pkg/features/kube_features.go (all kubernetes minors from v1.26.15 to v1.37.0).
        back_off_retry_s: the interval at which a container in back-off is retried; None: at the end of the back-off. Up
            to 1.32 an error that is a back-off is meant to wait for the next resync, but never does, since the results
            of a sync always include one without an error. Source: kubelet/pod_workers.go, ``completeWork``;
            kubelet/kubelet.go, end of ``SyncPod`` (kubernetes v1.26.15, v1.32.13, v1.34.4, v1.35.4), without their
            jitter.
    """

    minor: str
    clears_only_sockets: bool
    failed_scheduling_ends_twice: bool
    tries_dynamic_resources: bool
    knows_unresolvable_requests: bool
    created_event: str
    started_event: str
    crashes_on_vanished_devices: bool
    has_queueing_hints: bool
    pops_from_backoff: bool
    untolerated_taint: str
    counts_filtered_out_nodes: bool
    spares_best_effort_balance: bool
    preempted_event: str
    prefer_closest_level: str
    max_numa_nodes_level: str | None
    has_topology_options: bool
    topology_options_gates: tuple[str, ...]
    topology_option_level_error: str
    checks_topology_options_always: bool
    hints_only_at_devices: bool
    checks_devices_of_known_pods: bool
    spares_running_containers: bool
    spares_restarted_containers: bool
    observes_generation: bool
    reports_container_resources: bool
    reports_volume_mounts: bool
    kubelet_version: str
    retries_failed_registrations: bool
    has_device_plugin_check: bool
    reports_registration_failure: bool
    limits_pod_resources_rate: bool
    has_pod_resources_get: bool
    pod_resources_get_gate: bool | None
    list_active_pods_gate: bool | None
    lists_sidecars: bool
    counts_get_allocatable_twice: bool
    has_topology_metrics: bool
    has_alignment_metrics: bool
    has_alignment_failure_metrics: bool
    keys_endpoints_by_socket: bool
    stops_dialling_with_caller: bool
    reads_old_checkpoint: bool
    counts_pod_in_admission: bool
    crashes_when_freed_while_asking: bool
    reads_with_gogo: bool
    health_update_queue: int | None
    resource_health_status: bool
    finds_pods_by_resource: bool
    sidecars_keep_devices: bool
    cdi_devices_gate: bool | None
    annotates_cdi_devices: bool
    has_container_restart_rules: bool
    has_ready_to_start_condition: bool
    ends_deleted_pods: bool
    rejection_event_is_format: bool
    forgives_init_requests: bool
    sidecar_containers: bool | None
    metrics_escaping: str | None
    has_admission_rejections_metric: bool
    feature_gates: tuple[str, ...]
    back_off_retry_s: float | None


def release(text: str) -> Release:
    """Read a version: ``1.34.7``, or ``1.34`` for the patch of it that was looked at.

    Raises:
        InputError: its minor is not one of `SUPPORTED`.
    """
    match = re.fullmatch(r"1\.(\d+)(?:\.(\d+))?", text, re.ASCII)
    minor = int(match[1]) if match else -1
    if match is None or minor not in _PATCHES:
        raise InputError(f"kubernetes version {text!r} is not simulated; choose one of {', '.join(SUPPORTED)}")
    return minor, int(match[2]) if match[2] else _PATCHES[minor]


def version(text: str) -> Version:
    """The behaviour of a minor or of one of its patches.

    Raises:
        InputError: its minor is not one of `SUPPORTED`.
    """
    named = release(text)
    number = named[0]
    return Version(
        minor=f"1.{number}",
        clears_only_sockets=number >= 33,
        failed_scheduling_ends_twice=number <= 28,
        tries_dynamic_resources=number >= 34,
        knows_unresolvable_requests=number >= 34,
        created_event=_created_event(number),
        started_event="Started container {name}" if number <= 34 else "Container started",
        crashes_on_vanished_devices=number >= 34,
        has_queueing_hints=number >= 32,
        pops_from_backoff=number >= 33,
        untolerated_taint="node(s) had untolerated taint" + ("(s)" if number >= 34 else " {{{key}: {value}}}"),
        counts_filtered_out_nodes=number >= 32,
        spares_best_effort_balance=number >= 33,
        preempted_event=f"Preempted by {'a pod' if number <= 28 else 'pod {pod}'} on node {{node}}",
        prefer_closest_level="alpha" if number <= 27 else "beta" if number <= 31 else "stable",
        max_numa_nodes_level=None if number <= 30 else "beta" if number <= 34 else "stable",
        has_topology_options=number >= 28,
        topology_options_gates=("TopologyManager", "TopologyManagerPolicyOptions")[number >= 27 :],
        topology_option_level_error=_topology_option_level_error(number),
        checks_topology_options_always=number <= 27,
        hints_only_at_devices=number >= 36,
        checks_devices_of_known_pods=_has_fix(named, {26: 5, 27: 2}, from_minor=28),
        spares_running_containers=_has_fix(named, {26: 9, 27: 6}, from_minor=28),
        spares_restarted_containers=_has_fix(named, {34: 7, 35: 4}, from_minor=36),
        observes_generation=number >= 34,
        reports_container_resources=number >= 33,
        reports_volume_mounts=number >= 31,
        kubelet_version=f"v1.{number}.{named[1]}",
        retries_failed_registrations=number >= 36,
        has_device_plugin_check=number >= 32,
        reports_registration_failure=_has_fix(named, {32: 11, 33: 7, 34: 3}, from_minor=35),
        limits_pod_resources_rate=number >= 27,
        has_pod_resources_get=number >= 27,
        pod_resources_get_gate=number >= 34 if number < 36 else None,
        list_active_pods_gate=True if number >= 34 else None,
        lists_sidecars=number >= 30,
        counts_get_allocatable_twice=number <= 26,
        has_topology_metrics=number >= 27,
        has_alignment_metrics=number >= 32,
        has_alignment_failure_metrics=number >= 33,
        keys_endpoints_by_socket=number >= 37,
        stops_dialling_with_caller=number >= 35,
        reads_old_checkpoint=number <= 30,
        counts_pod_in_admission=number <= 31,
        crashes_when_freed_while_asking=number <= 29,
        reads_with_gogo=number <= 33,
        health_update_queue=None if number <= 30 else 0 if number == 31 else 100,
        resource_health_status=number >= 36,
        finds_pods_by_resource=number >= 37,
        sidecars_keep_devices=number >= 29,
        cdi_devices_gate=number >= 29 if number >= 28 else None,
        annotates_cdi_devices=28 <= number <= 31,
        has_container_restart_rules=number >= 35,
        has_ready_to_start_condition=number >= 29,
        ends_deleted_pods=number >= 27,
        rejection_event_is_format=number <= 35,
        forgives_init_requests=number >= 31,
        sidecar_containers=number >= 29 if number >= 28 else None,
        metrics_escaping=None if number <= 30 else "values" if number <= 32 else "underscores",
        has_admission_rejections_metric=number >= 32,
        feature_gates=tuple(gate for gate, minors in _FEATURE_GATES.items() if number in minors),
        back_off_retry_s=10.0 if number <= 34 else None,
    )


def _has_fix(named: Release, backports: Mapping[int, int], *, from_minor: int) -> bool:
    """Whether a release has what came with a minor, or with the patches of some minors before it."""
    minor, patch = named
    return minor >= from_minor or patch >= backports.get(minor, patch + 1)


def _topology_option_level_error(number: int) -> str:
    if number >= 33:
        return 'topology manager policy {level}-level options not enabled, but option "{option}" provided'
    return 'Topology Manager Policy {Level}-level Options not enabled, but option "{option}" provided'


def _created_event(number: int) -> str:
    if number >= 35:
        return "Container created"
    return "Created container: {name}" if number >= 30 else "Created container {name}"
