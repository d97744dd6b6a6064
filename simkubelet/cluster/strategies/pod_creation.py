"""The creation of a pod: what decoding, defaults, admission and the pod's strategy fill in.

Every function changes the object that it is given, which is the caller's own copy. Label keys become requirements about
the pod's own labels, in the selectors beside them. The quality of service class does not consider requests at pod
level. The volume with a service account's token is left out: pods get no token here.

Source: pkg/apis/core/v1/defaults.go; pkg/registry/core/pod/strategy.go, ``PrepareForCreate``, ``mutatePodAffinity``,
``mutateTopologySpreadConstraints``; pkg/apis/core/v1/helper/qos/qos.go, ``ComputePodQOS``;
plugin/pkg/admission/defaulttolerationseconds, serviceaccount; pkg/kubeapiserver/options/plugins.go (kubernetes
v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from ...model.errors import InputError
from ...model.pod import MIRROR_ANNOTATION
from ...model.resources import parse_quantity
from ..api.decoding.definitions import schema_of
from ..api.decoding.schema import read_value
from ..api.errors import GroupName, StatusError
from ..objects.container_images import image_name
from ..objects.objects import JSON, Objects
from .container_validation import canonical_amounts
from .pod_validation import validate_placement
from .priority_classes import set_priority

__all__ = [
    "admit_pod",
    "created_pod",
    "decoded_pod",
    "default_pod",
    "default_pod_spec",
    "default_tolerations",
    "drop_claims",
    "prepare_pod",
]

_NONE: Final = Decimal(0)
_COUNTED: Final = ("cpu", "memory")
_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_TOLERATION_S: Final = 300
_FILE_MODES: Final = ("secret", "configMap", "downwardAPI", "projected")


def decoded_pod(manifest: Mapping[str, Any]) -> JSON:
    """A copy of a manifest as the API server decodes it: without fields that no pod has, and without nulls.

    Raises:
        InputError: a field is not of its type, or what it says about where the pod goes is refused.
    """
    faults: list[str] = []
    try:
        pod: JSON = read_value(dict(manifest), schema_of("", "v1", "Pod"), "Pod", faults)
    except TypeError as error:
        raise InputError(f"the manifest is not of the form of a v1 Pod: cannot unmarshal {error}") from None
    except ValueError as error:
        raise InputError(f"the manifest is not of the form of a v1 Pod: {error}") from None
    if errors := validate_placement(pod.get("spec") or {}, "spec"):
        raise InputError(str(StatusError.invalid(GroupName("", "Pod"), pod["metadata"]["name"], errors)))
    return pod


def created_pod(pod: JSON, objects: Objects) -> JSON:
    """A pod as it is stored first; the object given is the caller's own and is changed.

    Raises:
        PriorityError: see `priority_classes.set_priority`.
    """
    default_pod(pod)
    prepare_pod(pod, objects)
    admit_pod(pod, objects)
    return pod


def prepare_pod(pod: JSON, objects: Objects) -> None:
    """Set what the server decides: the first generation, a status, and what label keys stand for."""
    pod["metadata"]["generation"] = 1
    pod["status"] = {"phase": "Pending", "qosClass": _quality_of_service(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": objects.wall_time.now(),
                "reason": "SchedulingGated",
                "message": _GATED,
            }
        ]
    _merge_label_keys(pod)


def drop_claims(spec: JSON) -> None:
    """Drop from a pod's spec what needs the feature gate DynamicResourceAllocation.

    Source: pkg/api/pod/util.go, ``dropDisabledDynamicResourceAllocationFields`` (kubernetes v1.33.13).
    """
    spec.pop("resourceClaims", None)
    for container in _containers(spec):
        (container.get("resources") or {}).pop("claims", None)


def admit_pod(pod: JSON, objects: Objects) -> None:
    """Set what the admission plugins decide that are on by default.

    Raises:
        PriorityError: see `priority_classes.set_priority`.
    """
    _default_service_account(pod)
    default_tolerations(pod)
    set_priority(pod["spec"], objects)


def default_pod(pod: JSON) -> None:
    """Fill in the defaults of a pod.

    Raises:
        StatusError: a quantity is none.
    """
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    for container in _containers(spec):
        resources = container["resources"]
        if resources.get("limits") is not None:
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True


def default_pod_spec(spec: JSON, owner: str = "Pod") -> None:
    """Fill in the defaults that a pod template has as well; `owner` is the kind of the object that has the spec.

    Raises:
        StatusError: a quantity is none.
    """
    defaults: JSON = {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    for name, value in defaults.items():
        if spec.get(name) in (None, ""):
            spec[name] = value
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in _containers(spec):
        _default_container(container, owner)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def default_tolerations(pod: JSON) -> None:
    """Let a pod stay five minutes on a node that is lost, unless it says otherwise."""
    tolerations = pod["spec"].get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            each.get("key", "") in (key, "") and each.get("effect", "") in ("NoExecute", "") for each in tolerations
        ):
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_S}
            tolerations = [*tolerations, added]
    pod["spec"]["tolerations"] = tolerations


def _default_service_account(pod: JSON) -> None:
    """Run a pod as its namespace's default account; the mirror of a static pod as none."""
    if MIRROR_ANNOTATION not in (pod["metadata"].get("annotations") or {}):
        name = pod["spec"].get("serviceAccountName") or "default"
        pod["spec"].update(serviceAccountName=name, serviceAccount=name)


def _containers(spec: JSON) -> Iterable[JSON]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _default_container(container: JSON, owner: str) -> None:
    image = str(container.get("image") or "")
    is_latest = image_name(image).endswith(":latest") if image else False
    defaults: JSON = {
        "imagePullPolicy": "Always" if is_latest else "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    for name, value in defaults.items():
        container[name] = container.get(name) or value
    container["resources"] = container.get("resources") or {}
    for kind in ("limits", "requests"):
        if container["resources"].get(kind):
            container["resources"][kind] = canonical_amounts(container["resources"][kind], owner)
    for port in container.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
    for variable in container.get("env") or ():
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe) is not None:
            _default_probe(container[probe])


def _default_probe(probe: JSON) -> None:
    for name, value in {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}.items():
        probe[name] = probe.get(name) or value
    if probe.get("httpGet") is not None:
        probe["httpGet"] = {"path": "/", "scheme": "HTTP", **probe["httpGet"]}


def _default_volume(volume: JSON) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for kind in _FILE_MODES:
        if volume.get(kind) is not None:
            volume[kind].setdefault("defaultMode", 420)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")


def _merge_label_keys(pod: JSON) -> None:
    """Write the requirements into the selectors of a new pod, which is the caller's own."""
    labels = pod["metadata"].get("labels") or {}
    for term, names in _terms(pod["spec"]):
        selector = term.get("labelSelector")
        added = [
            {"key": key, "operator": _OPERATORS[name], "values": [labels[key]]}
            for name in names
            for key in term.get(name) or ()
            if key in labels
        ]
        if selector is not None and added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _terms(spec: JSON) -> Iterator[tuple[JSON, tuple[str, ...]]]:
    """What has a selector with keys beside it, and the fields with the keys."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for each in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield each.get("podAffinityTerm") or {}, tuple(_OPERATORS)
        for each in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            yield each, tuple(_OPERATORS)
    for each in spec.get("topologySpreadConstraints") or ():
        yield each, ("matchLabelKeys",)


def _quality_of_service(spec: Mapping[str, Any]) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``; only CPU and memory count.

    Raises:
        InputError: a quantity is none.
    """
    is_guaranteed = True
    requests: dict[str, Decimal] = {}
    limits: dict[str, Decimal] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        asked, limit = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
        is_guaranteed = is_guaranteed and set(limit) == set(_COUNTED)
        requests = {name: requests.get(name, _NONE) + asked.get(name, _NONE) for name in {*requests, *asked}}
        limits = {name: limits.get(name, _NONE) + limit.get(name, _NONE) for name in {*limits, *limit}}
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _amounts(quantities: Mapping[str, Any] | None) -> dict[str, Decimal]:
    amounts = {name: parse_quantity(text) for name, text in (quantities or {}).items() if name in _COUNTED}
    return {name: amount for name, amount in amounts.items() if amount > 0}
