"""What decoding fills into pods and templates of pods, where their authors leave it out.

Every function changes the object that it is given, which is the caller's own copy.

Source: pkg/apis/core/v1/defaults.go, zz_generated.defaults.go (kubernetes v1.34.4); distribution/reference/regexp.go
(v0.6.0).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ....model.errors import InputError
from ....model.resources import canonical_quantity, parse_quantity
from ....model.version import Difference
from ...api.errors import StatusError
from ...objects.container_images import image_name
from ...objects.objects import JSON
from ..rules import Rules
from .gates import COMPLETES_AT_CREATION
from .resources import aggregated, is_huge_page, is_of_whole_pods, may_overcommit, quantity_text

__all__ = ["canonical_amounts", "default_pod", "default_pod_resources", "default_pod_spec"]

_QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WORD: Final = "[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*"
_HOST: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_IMAGE: Final = re.compile(
    rf"(?:{_HOST}(?:\.{_HOST})*(?::[0-9]+)?/)?{_WORD}(?:/{_WORD})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_NAME_AT_MOST: Final = 255
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_OF_PROBES: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_OF_SPECS: Final = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
_TEMPLATES_HAVE_HOST_PORTS: Final = Difference(
    "in templates of pods of their node's network, too, the ports of the node are by default those of the containers",
    {"1.26": True, "1.28": False},
    "pkg/apis/core/v1/defaults.go, ``SetDefaults_PodSpec`` (kubernetes v1.27.16, v1.28.15)",
)
_FILE_MODE: Final = 0o644
_OF_VOLUMES: Final[Mapping[str, Mapping[str, object]]] = {
    **{kind: {"defaultMode": _FILE_MODE} for kind in ("secret", "configMap", "downwardAPI", "projected")},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
"""Type of a volume -> what its fields are where they are left out."""
_NEVER_EMPTY: Final = ("iscsi", "rbd", "scaleIO")
"""Types of which an empty text is none."""
_TOKEN_S: Final = 3600


def default_pod(pod: JSON, rules: Rules) -> None:
    """Fill in the defaults of a pod.

    Raises:
        StatusError: a quantity is none.
    """
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec, rules)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _unify_addresses(pod.get("status") or {})
    for container in _containers(spec):
        resources = container["resources"]
        if resources.get("limits") is not None:
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    if COMPLETES_AT_CREATION not in rules.gates:
        default_pod_resources(spec, rules)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True


def _default_host_ports(spec: JSON) -> None:
    for container in _containers(spec):
        for port in container.get("ports") or ():
            if not port.get("hostPort") and port.get("containerPort"):
                port["hostPort"] = port["containerPort"]


def _unify_addresses(status: JSON) -> None:
    """Let the older field with the pod's address decide where both are there, and follow the newer one else.

    Source: pkg/apis/core/v1/conversion.go, ``Convert_v1_PodStatus_To_core_PodStatus`` (kubernetes v1.34.4).
    """
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def default_pod_spec(spec: JSON, rules: Rules, owner: str = "Pod") -> None:
    """Fill in the defaults that a pod template has as well; `owner` is the kind of the object that has the spec.

    Raises:
        StatusError: a quantity is none.
    """
    for name, value in _OF_SPECS.items():
        if spec.get(name) in (None, ""):
            spec[name] = value
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec.update(serviceAccountName=account, serviceAccount=account)
    for container in (*_containers(spec), *(spec.get("ephemeralContainers") or ())):
        _default_container(container, owner)
    for volume in spec.get("volumes") or ():
        _default_volume(volume, rules, owner)
    if spec.get("hostNetwork") and rules.of(_TEMPLATES_HAVE_HOST_PORTS):
        _default_host_ports(spec)
    _canonicalize(spec.get("resources") or {}, owner)
    if spec.get("overhead"):
        spec["overhead"] = canonical_amounts(spec["overhead"], owner)


def canonical_amounts(amounts: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Resource -> quantity, each as it is written back: no smaller than a thousandth.

    Args:
        amounts: what the author wrote.
        kind: of the object, for the error.

    Raises:
        StatusError: one is no quantity.
    """
    try:
        return {name: _rounded(text) for name, text in amounts.items()}
    except InputError:
        raise StatusError.bad_request(
            f'{kind} in version "v1" cannot be handled as a {kind}: {_QUANTITY_RULE}'
        ) from None


def _rounded(text: Any) -> str:
    thousandths = parse_quantity(text) * 1000
    is_whole = thousandths == thousandths.to_integral_value()
    return canonical_quantity(text if is_whole else f"{math.ceil(thousandths)}m")


def _canonicalize(resources: JSON, owner: str) -> None:
    for kind in ("limits", "requests"):
        if resources.get(kind):
            resources[kind] = canonical_amounts(resources[kind], owner)


def _containers(spec: JSON) -> Iterable[JSON]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _default_container(container: JSON, owner: str) -> None:
    defaults: JSON = {
        "imagePullPolicy": _pull_policy(container.get("image") or ""),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    for name, value in defaults.items():
        container[name] = container.get(name) or value
    container["resources"] = container.get("resources") or {}
    _canonicalize(container["resources"], owner)
    for port in container.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        _default_reference(source)
        if source.get("fileKeyRef") is not None:
            source["fileKeyRef"].setdefault("optional", False)
    for name in _PROBES:
        if container.get(name) is not None:
            _default_probe(container[name])
    for name in ("postStart", "preStop"):
        _default_request((container.get("lifecycle") or {}).get(name) or {})


def _pull_policy(image: str) -> str:
    """Pull always what may have changed; an image that cannot be read is not among that."""
    found = _IMAGE.fullmatch(image)
    if found is None or len(image_name(image).rpartition(":")[0]) > _NAME_AT_MOST:
        return "IfNotPresent"
    is_latest = found["tag"] == "latest" or (found["tag"] is None and found["digest"] is None)
    return "Always" if is_latest else "IfNotPresent"


def _default_reference(part: JSON) -> None:
    if part.get("fieldRef") is not None:
        part["fieldRef"]["apiVersion"] = part["fieldRef"].get("apiVersion") or "v1"
    if part.get("resourceFieldRef") is not None:
        part["resourceFieldRef"].setdefault("divisor", "0")


def _default_request(handler: JSON) -> None:
    request = handler.get("httpGet")
    if request is not None:
        request["path"] = request.get("path") or "/"
        request["scheme"] = request.get("scheme") or "HTTP"


def _default_probe(probe: JSON) -> None:
    for name, value in _OF_PROBES.items():
        probe[name] = probe.get(name) or value
    _default_request(probe)
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _default_volume(volume: JSON, rules: Rules, owner: str) -> None:
    if not any(value is not None for name, value in volume.items() if name != "name"):
        volume["emptyDir"] = {}
    for kind, defaults in _OF_VOLUMES.items():
        source = volume.get(kind)
        if source is None:
            continue
        for name, value in defaults.items():
            if source.get(name) is None or (kind in _NEVER_EMPTY and not source[name]):
                source[name] = value
    image, claim = volume.get("image"), (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if image is not None and "ImageVolume" in rules.gates:
        image["pullPolicy"] = image.get("pullPolicy") or _pull_policy(image.get("reference") or "")
    if claim is not None:
        spec = claim.setdefault("spec", {})
        spec.setdefault("volumeMode", "Filesystem")
        _canonicalize(spec.get("resources") or {}, owner)
    for file in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_reference(file)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_S)
        for file in (source.get("downwardAPI") or {}).get("items") or ():
            _default_reference(file)


def default_pod_resources(spec: JSON, rules: Rules) -> None:
    """Let a whole pod have what its containers ask for, where it has resources of its own.

    Source: pkg/apis/core/v1/defaults.go, ``defaultHugePagePodLimits``, ``defaultPodRequests`` (kubernetes v1.34.4);
    pkg/api/pod/util.go, ``DefaultPodLevelResources`` (kubernetes v1.37.2).
    """
    resources = spec.get("resources")
    if "PodLevelResources" not in rules.gates or resources is None:
        return
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    if not limits and not requests:
        return
    at_creation = COMPLETES_AT_CREATION in rules.gates
    for name, (amount, like) in aggregated(spec, "limits").items():
        if is_huge_page(name) and name not in requests:
            limits.setdefault(name, quantity_text(amount, like))
    if limits or at_creation:
        for name, (amount, like) in aggregated(spec, "requests").items():
            if is_of_whole_pods(name) and may_overcommit(name):
                requests.setdefault(name, quantity_text(amount, like))
        for name, text in limits.items():
            if is_of_whole_pods(name):
                requests.setdefault(name, text)
    if at_creation:
        limits = {**_limits_of_containers(spec, requests), **limits}
    if limits:
        resources["limits"] = limits
    if requests:
        resources["requests"] = requests


def _limits_of_containers(spec: JSON, requests: Mapping[str, str]) -> dict[str, str]:
    """What a whole pod is limited to by its containers, of the resources that all of them limit."""
    found = {}
    for name, (amount, like) in aggregated(spec, "limits").items():
        limited = all(name in (one["resources"].get("limits") or {}) for one in _containers(spec))
        if limited and is_of_whole_pods(name) and name in requests:
            is_more = parse_quantity(requests[name]) > amount
            found[name] = requests[name] if is_more else quantity_text(amount, like)
    return found
