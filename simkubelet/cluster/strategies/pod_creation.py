"""What becomes of a pod that is created: what defaults, admission and the pod's strategy fill in.

Source: registry/core/pod/strategy.go, ``PrepareForCreate``; pkg/kubeapiserver/options/plugins.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model.errors import InputError
from ..api.decoding.schema import schema_of
from ..api.decoding.typed_values import read_value
from ..api.errors import GroupName, StatusError
from ..objects.objects import JSON, Objects
from .label_keys import merge_label_keys
from .pod_defaults import default_pod, default_service_account, default_tolerations
from .pod_validation import validate_placement
from .priority import set_priority
from .quality_of_service import quality_of_service

__all__ = ["admit_pod", "created_pod", "decoded_pod", "prepare_pod"]

_GATED = "Scheduling is blocked due to non-empty scheduling gates"


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
        PriorityError: see `priority.set_priority`.
    """
    default_pod(pod)
    prepare_pod(pod, objects)
    admit_pod(pod, objects)
    return pod


def prepare_pod(pod: JSON, objects: Objects) -> None:
    """Set what the server decides: the first generation, a status, and what label keys stand for."""
    pod["metadata"]["generation"] = 1
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}
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
    merge_label_keys(pod)


def admit_pod(pod: JSON, objects: Objects) -> None:
    """Set what the admission plugins decide that are on by default.

    Raises:
        PriorityError: see `priority.set_priority`.
    """
    default_service_account(pod)
    default_tolerations(pod)
    set_priority(pod["spec"], objects)
