"""Events in the form of core, in which they are stored, and in that of events.k8s.io.

Source: pkg/apis/events/v1/conversion.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Final

from ...objects.objects import JSON

__all__ = ["core_event", "new_event"]

_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_NAMES: Final = {new: core for core, new in _NEW_NAMES.items()}
_LEFT_OUT_WHERE_EMPTY: Final = ("reportingController", "reportingInstance")


def new_event(core: JSON) -> JSON:
    """An Event of core in the form of events.k8s.io."""
    found = {_NEW_NAMES.get(name, name): value for name, value in core.items()}
    return {name: value for name, value in found.items() if value or name not in _LEFT_OUT_WHERE_EMPTY}


def core_event(new: JSON) -> JSON:
    """An Event of events.k8s.io in core's form."""
    return {_CORE_NAMES.get(name, name): value for name, value in new.items()}
