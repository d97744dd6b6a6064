"""Random pods and DaemonSets: whole ones of several topics, changed in a few places.

They have the fields of all minors; each topic has those that belong together, and the values that they may have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.support.random_objects import Pool
from tests.support.whole_volumes import IMAGE, PLAIN, SELECTOR, VOLUMES, VOLUMES_OF_DRIVERS

__all__ = ["OF_PODS", "WHOLE_DAEMON_SETS", "WHOLE_PODS"]

_TERM: Final[Any] = {
    "matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "count", "operator": "Gt", "values": ["1"]},
        {"key": "gpu", "operator": "DoesNotExist"},
    ],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
}
_POD_TERM: Final[Any] = {
    "labelSelector": SELECTOR,
    "namespaceSelector": {"matchLabels": {"team": "x"}},
    "namespaces": ["default"],
    "topologyKey": "zone",
    "matchLabelKeys": ["app"],
    "mismatchLabelKeys": ["tier"],
}
_POD_TERMS: Final[Any] = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": _POD_TERM}],
}
_CLAIMS: Final[Any] = {
    "resourceClaims": [
        {"name": "gpu", "resourceClaimName": "one"},
        {"name": "nic", "resourceClaimTemplateName": "two"},
    ],
    "resources": {"requests": {"cpu": "4", "memory": "4Gi"}, "limits": {"cpu": "8", "memory": "8Gi"}},
    "overhead": {"cpu": "250m", "memory": "1Mi"},
    "initContainers": [
        {
            "name": "side",
            "image": IMAGE,
            "restartPolicy": "Always",
            "resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "gpu", "request": "first"}]},
            "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
        },
        {
            "name": "init",
            "image": IMAGE,
            "resources": {"limits": {"cpu": "2"}},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        },
    ],
    "containers": [
        {
            **PLAIN,
            "resources": {
                "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi"},
                "limits": {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi"},
                "claims": [{"name": "gpu", "request": "first"}, {"name": "nic"}],
            },
            "resizePolicy": [
                {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                {"resourceName": "memory", "restartPolicy": "RestartContainer"},
            ],
        },
        {"name": "two", "image": "app", "resources": {"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}}},
    ],
}
_VARIABLES: Final[Any] = {
    "serviceAccountName": "default",
    "volumes": [{"name": "files", "emptyDir": {}}],
    "initContainers": [
        {
            "name": "init",
            "image": IMAGE,
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k", "optional": True}}}],
        }
    ],
    "containers": [
        {
            **PLAIN,
            "env": [
                {"name": "TEXT", "value": "x"},
                {"name": "FIELD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {
                    "name": "RESOURCE",
                    "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}},
                },
                {
                    "name": "MEMORY",
                    "valueFrom": {
                        "resourceFieldRef": {"containerName": "main", "resource": "requests.memory", "divisor": "1Mi"}
                    },
                },
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}},
                {
                    "name": "FILE",
                    "valueFrom": {"fileKeyRef": {"volumeName": "files", "path": "a/b", "key": "K", "optional": False}},
                },
            ],
            "envFrom": [
                {"prefix": "P_", "configMapRef": {"name": "x", "optional": True}},
                {"secretRef": {"name": "x"}},
            ],
        }
    ],
}
_PROBE: Final[Any] = {
    "initialDelaySeconds": 1,
    "timeoutSeconds": 1,
    "periodSeconds": 1,
    "successThreshold": 1,
    "failureThreshold": 1,
}
_REQUEST: Final[Any] = {
    "httpGet": {
        "path": "/x",
        "port": 80,
        "scheme": "HTTPS",
        "protocol": "HTTP2",
        "httpHeaders": [{"name": "X-A", "value": "x"}],
    }
}
_HANDLERS: Final[Any] = {
    "os": {"name": "linux"},
    "restartPolicy": "OnFailure",
    "terminationGracePeriodSeconds": 33,
    "initContainers": [
        {
            "name": "side",
            "image": IMAGE,
            "restartPolicy": "Always",
            "startupProbe": {**_PROBE, "exec": {"command": ["true"]}},
            "readinessProbe": {**_PROBE, "tcpSocket": {"port": "http"}},
            "lifecycle": {"preStop": {"sleep": {"seconds": 2}}},
            "ports": [{"name": "http", "containerPort": 80, "hostPort": 80}],
        },
    ],
    "containers": [
        {
            **PLAIN,
            "restartPolicy": "Never",
            "restartPolicyRules": [
                {"action": "Restart", "exitCodes": {"operator": "In", "values": [1, 2]}},
                {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [33]}},
            ],
            "livenessProbe": {**_PROBE, "terminationGracePeriodSeconds": 1, **_REQUEST},
            "readinessProbe": {**_PROBE, "grpc": {"port": 1, "service": "x", "mode": "TLS"}},
            "startupProbe": {**_PROBE, "tcpSocket": {"port": 1}},
            "lifecycle": {
                "postStart": {"exec": {"command": ["true"]}, "tcpSocket": {"port": 1}},
                "preStop": _REQUEST,
                "stopSignal": "SIGTERM",
            },
            "ports": [
                {"name": "http", "containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"},
                {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            ],
            "imagePullPolicy": "Always",
            "terminationMessagePolicy": "File",
        }
    ],
}
_PLACED: Final[Any] = {
    "schedulingGates": [{"name": "example.com/one"}, {"name": "example.com/two"}],
    "nodeSelector": {"zone": "a"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": _TERM}],
        },
        "podAffinity": _POD_TERMS,
        "podAntiAffinity": _POD_TERMS,
    },
    "tolerations": [
        {"key": "example.com/x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1},
        {"key": "x", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "minDomains": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
            "matchLabelKeys": ["app"],
            "nodeAffinityPolicy": "Honor",
            "nodeTaintsPolicy": "Ignore",
        },
        {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"},
    ],
    "schedulingGroup": {"podGroupName": "x"},
    "workloadRef": {"name": "x", "podGroup": "y"},
    "evictionResponders": [{"name": "example.com/x", "priority": 1}],
    "readinessGates": [{"conditionType": "example.com/ready"}],
    "priorityClassName": "x",
    "preemptionPolicy": "Never",
    "activeDeadlineSeconds": 33,
    "containers": [PLAIN],
}
_PROFILE: Final[Any] = {"type": "Localhost", "localhostProfile": "x"}
_WINDOWS: Final[Any] = {
    "gmsaCredentialSpecName": "x",
    "gmsaCredentialSpec": "x",
    "runAsUserName": "x\\x",
    "hostProcess": True,
}
_SECURE: Final[Any] = {
    "hostUsers": True,
    "hostNetwork": True,
    "hostPID": True,
    "hostIPC": False,
    "shareProcessNamespace": False,
    "hostname": "x",
    "subdomain": "x",
    "hostnameOverride": "x",
    "setHostnameAsFQDN": False,
    "runtimeClassName": "x",
    "dnsPolicy": "None",
    "dnsConfig": {
        "nameservers": ["10.0.0.1"],
        "searches": ["example.com", "a_b."],
        "options": [{"name": "ndots", "value": "1"}],
    },
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["x"]}],
    "imagePullSecrets": [{"name": "x"}],
    "securityContext": {
        "fsGroup": 1,
        "fsGroupChangePolicy": "Always",
        "runAsUser": 1,
        "runAsGroup": 1,
        "supplementalGroups": [1, 2],
        "supplementalGroupsPolicy": "Merge",
        "seLinuxChangePolicy": "Recursive",
        "sysctls": [{"name": "kernel.shmmax", "value": "1"}, {"name": "vm.x", "value": "1"}],
        "seccompProfile": _PROFILE,
        "appArmorProfile": _PROFILE,
    },
    "initContainers": [{"name": "init", "image": "x:latest", "securityContext": {"procMount": "Default"}}],
    "containers": [
        {
            **PLAIN,
            "ports": [{"containerPort": 80}],
            "securityContext": {
                "privileged": True,
                "allowPrivilegeEscalation": True,
                "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
                "procMount": "Default",
                "runAsUser": 1,
                "runAsGroup": 1,
                "seccompProfile": {"type": "RuntimeDefault"},
                "appArmorProfile": _PROFILE,
            },
        },
        {"name": "two", "image": "a@sha256:" + "0" * 64, "securityContext": {"allowPrivilegeEscalation": False}},
    ],
}
_FOR_WINDOWS: Final[Any] = {
    "os": {"name": "windows"},
    "hostNetwork": True,
    "securityContext": {"windowsOptions": _WINDOWS},
    "containers": [
        {**PLAIN, "securityContext": {"windowsOptions": _WINDOWS}, "lifecycle": {"stopSignal": "SIGKILL"}},
    ],
}
_EPHEMERAL: Final[Any] = {
    "containers": [PLAIN],
    "volumes": [{"name": "dir", "emptyDir": {}}],
    "ephemeralContainers": [
        {
            "name": "debug",
            "image": IMAGE,
            "targetContainerName": "main",
            "volumeMounts": [{"name": "dir", "mountPath": "/dir", "subPath": "x", "bindMountOptions": ["noexec"]}],
            "ports": [{"containerPort": 80}],
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
        }
    ],
}
_STATUS: Final[Any] = {
    "phase": "Running",
    "observedGeneration": 1,
    "nominatedNodeName": "node-1",
    "hostIP": "10.0.0.1",
    "hostIPs": [{"ip": "10.0.0.1"}],
    "podIP": "10.0.0.1",
    "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "example.com/x", "status": "True"}],
    "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "one"}],
    "containerStatuses": [
        {
            "name": "main",
            "image": IMAGE,
            "imageID": "x",
            "ready": True,
            "restartCount": 1,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "allocatedResourcesStatus": [
                {"name": "nvidia.com/gpu", "resources": [{"resourceID": "a", "health": "Healthy"}]},
                {"name": "claim:nic", "resources": [{"resourceID": "a", "health": "Unknown"}]},
            ],
            "user": {"linux": {"uid": 1, "gid": 1, "supplementalGroups": [1]}},
        }
    ],
}
_METADATA: Final[Any] = {"name": "one", "namespace": "default", "labels": {"app": "x", "tier": "y"}}
_ANNOTATIONS: Final[Any] = {
    "controller.kubernetes.io/pod-deletion-cost": "1",
    "container.apparmor.security.beta.kubernetes.io/main": "localhost/x",
    "seccomp.security.alpha.kubernetes.io/pod": "localhost/x",
}

WHOLE_PODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "claims and resources": {"metadata": _METADATA, "spec": _CLAIMS, "status": _STATUS},
    "variables": {"metadata": _METADATA, "spec": _VARIABLES},
    "volumes": {"metadata": _METADATA, "spec": VOLUMES},
    "volumes of drivers": {"metadata": _METADATA, "spec": VOLUMES_OF_DRIVERS},
    "probes, hooks and ports": {"metadata": _METADATA, "spec": _HANDLERS},
    "places": {"metadata": _METADATA, "spec": _PLACED},
    "security and names": {"metadata": {**_METADATA, "annotations": _ANNOTATIONS}, "spec": _SECURE},
    "windows": {"metadata": _METADATA, "spec": _FOR_WINDOWS},
    "ephemeral containers": {"metadata": _METADATA, "spec": _EPHEMERAL},
}
"""Topic -> a pod; most are taken as they are."""

WHOLE_DAEMON_SETS: Final[Sequence[Mapping[str, Any]]] = [
    {
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}, "annotations": _ANNOTATIONS if "main" in str(spec) else {}},
                "spec": {name: value for name, value in spec.items() if name not in ("restartPolicy", "restartRules")},
            },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "minReadySeconds": 1,
            "revisionHistoryLimit": 2,
        },
    }
    for spec in (_CLAIMS, _VARIABLES, VOLUMES, _HANDLERS, _SECURE)
]
"""DaemonSets of such pods."""

_TEXTS: Final[Any] = (
    *("", "x", "other", "Upper", "with.dots", "-bad", "a/b", "a/b/c", "x" * 33, "x" * 64, "x" * 254, "é", "01.2.3"),
    *("../y", "/y", "..y", "a=b", "1A", "main", "init", "gpu", "nic", "dir", "files", "claim", "own", "image"),
    *("Always", "Never", "OnFailure", "IfNotPresent", "Restart", "RestartContainer", "NotRequired", "cpu", "memory"),
    *("In", "NotIn", "Exists", "Equal", "Gt", "Lt", "NoSchedule", "NoExecute", "DoNotSchedule", "Honor", "app", "zone"),
    *("metadata.name", "metadata.labels", "metadata.annotations['Ab']", "spec.host", "status.hostIPs", "status.phase"),
    *("limits.cpu", "requests.memory", "limits.hugepages-2Mi", "requests.ephemeral-storage", "hugepages-2Mi"),
    *("nvidia.com/gpu", "example.com/x", "kubernetes.io/x", "requests.cpu", "storage", "pods", "hugepages-x", "latest"),
    *(
        "Localhost",
        "RuntimeDefault",
        "Unconfined",
        "Unmasked",
        "Strict",
        "MountOption",
        "OnRootMismatch",
        "CAP_SYS_ADMIN",
    ),
    *("net.ipv4.x", "net/ipv4/x", "kernel.shm", "fs.mqueue.x", "windows", "linux", "SIGKILL", "SIGUSR1", "SIGRTMIN+1"),
    *("ClusterFirst", "Default", "Bidirectional", "HostToContainer", "None", "Disabled", "Enabled", "Block", "File"),
    *("10.0.0.1", "010.0.0.1", "::ffff:10.0.0.1", "fd00::1", "HTTP", "HTTPS", "http", "80", "TCP", "SCTP", "http--x"),
    *("ReadWriteOncePod", "ReadOnlyMany", "Filesystem", "Managed", "Shared", "iqn.x", "eui.0123456789abcdef", "naa.x"),
    *("localhost/x", "runtime/default", "unconfined", "localhost/../x", " x ", ".", "..", "a.b.", "RSA3072", "Running"),
    *("kubernetes.io/x/y", "example.com:x:y", "a:b", "claim:gpu/first", "claim:nic", "Unhealthy", "example.com/app"),
)
_NUMBERS: Final[Any] = (0, -1, 1, 2, 33, 80, 256, 512, 65536, 3600, 2**31, 2**32 + 1)
_QUANTITIES: Final[Any] = (
    "0",
    "1",
    "2",
    "3",
    "5",
    "80Gi",
    "1500m",
    "100",
    "1e3",
    "-1",
    "500m",
    "100u",
    "1k",
    "4Mi",
    "3Mi",
)
OF_PODS: Final = Pool(
    texts=_TEXTS,
    numbers=_NUMBERS,
    quantities=_QUANTITIES,
    times_more=(1, 1, 1, 4, 40),
    maps=(
        *("labels", "annotations", "matchLabels", "nodeSelector", "requests", "limits", "overhead", "options"),
        *("volumeAttributes",),
    ),
    untouched=("startedAt",),
    never_empty=("ports",),
)
"""What their values may become."""
