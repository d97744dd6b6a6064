"""What differs between Kubernetes minors, as data.

A node names its minor (``"1.34"``); code asks the `Version` for a behaviour and never compares numbers itself. Each
field says where its value was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .errors import InputError

__all__ = ["DEFAULT", "SUPPORTED", "Version", "version"]

SUPPORTED: Final = ("1.26", "1.27", "1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
DEFAULT: Final = "1.34"


@dataclass(frozen=True, slots=True)
class Version:
    """The observable behaviour of one Kubernetes minor.

    Attributes:
        minor: as written in a scenario, for instance ``1.34``.
        clears_only_sockets: at its start the device manager removes sockets only; before, every file but the
            checkpoint. Source: devicemanager/manager.go, ``CleanupPluginDirectory`` (kubernetes v1.32.13, v1.33.13).
        failed_scheduling_ends_twice: the FailedScheduling text closes with two full stops, as the text of the
            preemption attempt brings its own. Source: scheduler/framework/types.go, ``FitError.Error``
            (kubernetes v1.28.15, v1.29.6).
        tries_dynamic_resources: dynamic resource allocation is on by default, so its "no new claims to deallocate"
            stands in the FailedScheduling text. Source: pkg/features/kube_features.go (kubernetes v1.34.4).
        knows_unresolvable_requests: a request above the node's allocatable is no case for preemption, and the text
            says so. Source: noderesources/fit.go, ``fitsRequest`` (kubernetes v1.33.13, v1.34.4).
        created_event: message of the Created event of a container, with ``{name}`` for its name.
        started_event: message of the Started event. Source of both: kuberuntime/kuberuntime_container.go,
            ``startContainer`` (kubernetes v1.29.6, v1.30.14, v1.34.4, v1.35.4).
        crashes_on_vanished_devices: a device that leaves its plugin's list while its Allocate is under way makes the
            kubelet end with a nil pointer. Source: devicemanager/manager.go, ``allocateContainerResources``: devices
            are values up to v1.33.4 and pointers from v1.34.4.
        requeues_only_what_fits: a pending pod is tried again only for a change that makes it fit; before, for every
            change of a node's allocatable. Source: noderesources/fit.go, ``isSchedulableAfterNodeChange``, behind
            the gate SchedulerQueueingHints, on by default from 1.32 (pkg/features/kube_features.go).
    """

    minor: str
    clears_only_sockets: bool
    failed_scheduling_ends_twice: bool
    tries_dynamic_resources: bool
    knows_unresolvable_requests: bool
    created_event: str
    started_event: str
    crashes_on_vanished_devices: bool
    requeues_only_what_fits: bool


def version(minor: str) -> Version:
    """The behaviour of a minor.

    Raises:
        InputError: the minor is not one of `SUPPORTED`.
    """
    if minor not in SUPPORTED:
        raise InputError(f"kubernetes version {minor!r} is not simulated; choose one of {', '.join(SUPPORTED)}")
    number = int(minor.removeprefix("1."))
    return Version(
        minor=minor,
        clears_only_sockets=number >= 33,
        failed_scheduling_ends_twice=number <= 28,
        tries_dynamic_resources=number >= 34,
        knows_unresolvable_requests=number >= 34,
        created_event=_created_event(number),
        started_event="Started container {name}" if number <= 34 else "Container started",
        crashes_on_vanished_devices=number >= 34,
        requeues_only_what_fits=number >= 32,
    )


def _created_event(number: int) -> str:
    if number >= 35:
        return "Container created"
    return "Created container: {name}" if number >= 30 else "Created container {name}"
