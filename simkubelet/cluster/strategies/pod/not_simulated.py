"""What an API server warns about here: the fields of pods that have no effect on a simulated node.

A warning names each field without effect where a real cluster would treat the pod otherwise. A field that only says how
a container is isolated or reached is not among them, as none of that shows in the pod.
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
    "resources": "those of a whole pod are not counted",
    "runtimeClassName": "there are no RuntimeClasses; a real cluster refuses a pod of one that it does not have",
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
    """Return a warning for each field without effect that a pod's spec sets.

    Args:
        spec: of a pod or of a template of pods.
        path: of the spec in its object.
    """
    return [
        f"not simulated: {place}: {why}"
        for field, why in NOT_SIMULATED.items()
        for place in _places_of(spec, field, path)
    ]


def _places_of(value: Any, field: str, path: str) -> Iterator[str]:
    """The places of a field in a value; a field that is empty is not set."""
    name, _, rest = field.partition(".")
    plain, next_ = name.removesuffix("[*]"), rest.partition(".")[0].removesuffix("[*]")
    for each in (plain, "initContainers") if plain == "containers" else (plain,):
        found = value.get(each)
        places = [(f"{path}.{each}", found)]
        if name != plain:
            places = [
                (f"{path}.{each}[{index}]", item)
                for index, item in enumerate(found or ())
                if not next_ or (isinstance(item, Mapping) and next_ in item)
            ]
        for place, inner in places:
            if rest and isinstance(inner, Mapping):
                yield from _places_of(inner, rest, place)
            elif not rest and inner not in (None, {}, [], ""):
                yield place
