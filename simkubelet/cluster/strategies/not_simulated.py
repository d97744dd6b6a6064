"""The fields of a pod that are taken and have no effect here, though a real cluster would treat the pod otherwise.

A field that only says how a container is isolated or reached is not among them, as none of that shows in the pod.
What can be created here, a ConfigMap for instance, is looked up; what cannot be is in this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["NOT_SIMULATED", "not_simulated"]

_PROBE: Final = "not run; a container is ready while it runs"
_DRIVER: Final = "there are no volumes of this type; the pod starts without it"

NOT_SIMULATED: Final[Mapping[str, str]] = {
    "activeDeadlineSeconds": "the pod is not ended",
    "overhead": "not counted",
    "readinessGates": "not awaited; the pod is ready when its containers are",
    "resourceClaims": "no device is claimed; the pod is placed and started without",
    "resources": "those of a whole pod are not counted",
    "runtimeClassName": "there are no RuntimeClasses; a real cluster refuses a pod of one that it does not have",
    "topologySpreadConstraints": "pods are not spread",
    "volumes[*].persistentVolumeClaim": "there are no claims; on a real cluster the pod waits until the claim is bound",
    **{f"volumes[*].{type_}": _DRIVER for type_ in ("csi", "ephemeral", "image", "iscsi", "nfs")},
    "containers[*].livenessProbe": "not run; the container is not restarted",
    "containers[*].readinessProbe": _PROBE,
    "containers[*].startupProbe": _PROBE,
    "containers[*].lifecycle": "hooks are not run",
    "containers[*].volumeDevices": "no device is attached",
    "containers[*].env[*].valueFrom.resourceFieldRef": "the variable is empty",
    "containers[*].env[*].valueFrom.fileKeyRef": "the variable is empty",
}
"""Path below a pod's ``spec`` -> what becomes of it; ``containers`` stands for ``initContainers`` too."""


def not_simulated(spec: Mapping[str, Any], path: str = "spec") -> list[str]:
    """A sentence for each such field that a pod's spec sets.

    Args:
        spec: of a pod or of a template of pods.
        path: of the spec in its object.
    """
    return [
        f"not simulated: {place}: {why}" for field, why in NOT_SIMULATED.items() for place in _set(spec, field, path)
    ]


def _set(value: Any, field: str, path: str) -> Iterator[str]:
    """The places of a field in a value; a field that is empty is not set."""
    name, _, rest = field.partition(".")
    plain = name.removesuffix("[*]")
    for each in (plain, "initContainers") if plain == "containers" else (plain,):
        found = value.get(each)
        places = [(f"{path}.{each}", found)]
        if name != plain:
            places = [(f"{path}.{each}[{index}]", item) for index, item in enumerate(found or ())]
        for place, inner in places:
            if rest and isinstance(inner, Mapping):
                yield from _set(inner, rest, place)
            elif not rest and inner not in (None, {}, [], ""):
                yield place
