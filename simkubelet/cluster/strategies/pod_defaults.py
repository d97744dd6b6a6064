"""What an API server fills into a pod that its author left out.

Every function changes the object that it is given, which is the caller's own copy. The volume with a service account's
token is left out: pods get no token here.

Source: pkg/apis/core/v1/defaults.go; plugin/pkg/admission/defaulttolerationseconds, serviceaccount (kubernetes
v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...model.pod import MIRROR_ANNOTATION
from ..objects.container_images import image_name
from ..objects.objects import JSON
from .resource_validation import canonical_amounts

__all__ = ["default_pod", "default_pod_spec", "default_service_account", "default_tolerations"]

_TOLERATION_S: Final = 300
_FILE_MODES: Final = ("secret", "configMap", "downwardAPI", "projected")


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


def default_service_account(pod: JSON) -> None:
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
