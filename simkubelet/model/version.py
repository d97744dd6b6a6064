"""Kubernetes releases, the feature gates of a kubelet, and how code declares what differs between releases.

A node names a minor (``"1.34"``), or one of its patches (``"1.34.7"``) where a fix came in between. The code whose
behaviour differs declares a `Difference` in its own module and asks it; no code compares releases itself.
``tools/generate/version_table.py`` collects all of them into ``docs/versions.md``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Generic, NamedTuple, TypeVar

from .errors import InputError

__all__ = [
    "DEFAULT",
    "DYNAMIC_RESOURCES",
    "EXTENDED_CLAIMS",
    "FEATURE_GATES",
    "SUPPORTED",
    "Difference",
    "Gate",
    "Version",
    "version",
]

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
    35: 8,
    36: 5,
    37: 2,
}
"""Minor -> the patch that its name stands for: the one of the oracles and recordings. What patches changed before and
after it, `tools/check/releases` looks up."""
SUPPORTED: Final = tuple(f"1.{minor}" for minor in _PATCHES)
DEFAULT: Final = "1.34"

T = TypeVar("T")


class Version(NamedTuple):
    """One Kubernetes release; releases compare in their order."""

    minor: int
    patch: int

    @property
    def kubelet_version(self) -> str:
        """What a node reports as its kubelet's version: ``v1.34.4``."""
        return f"v1.{self.minor}.{self.patch}"


def version(text: str) -> Version:
    """Read a release: ``1.34.7``, or ``1.34`` for the patch of it whose source was read.

    Raises:
        InputError: its minor is not one of `SUPPORTED`.
    """
    match = re.fullmatch(r"1\.([0-9]+)(?:\.([0-9]+))?", text, re.ASCII)
    minor = int(match[1]) if match else -1
    if match is None or minor not in _PATCHES:
        raise InputError(f"kubernetes version {text!r} is not simulated; choose one of {', '.join(SUPPORTED)}")
    return Version(minor, int(match[2]) if match[2] else _PATCHES[minor])


@dataclass(frozen=True, slots=True, eq=False)
class Difference(Generic[T]):
    """One behaviour that differs between releases: a row of ``docs/versions.md``.

    It is a constant of the module that asks it; several modules ask the one in the lowest of them.

    Attributes:
        text: what is so where the value is true, or what the value is.
        values: release -> the value from it on, in the order of releases and beginning with the oldest minor.
        source: where that was read.

    Raises:
        ValueError: the releases are out of order, or a value is the one before it.
    """

    text: str
    values: Mapping[str, T]
    source: str
    _starts: tuple[Version, ...] = field(init=False, repr=False)
    _steps: tuple[T, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts = tuple(_first(text) for text in self.values)
        steps = tuple(self.values.values())
        if starts != tuple(sorted({*starts})) or next(iter(self.values)) != SUPPORTED[0]:
            raise ValueError(f"{self.text}: releases must rise from {SUPPORTED[0]}, not {', '.join(self.values)}")
        if any(before == after for before, after in pairwise(steps)):
            raise ValueError(f"{self.text}: a release without a change among {self.values}")
        object.__setattr__(self, "_starts", starts)
        object.__setattr__(self, "_steps", steps)

    def at(self, release: Version) -> T:
        """Return the value of a release."""
        return self._steps[bisect_right(self._starts, release) - 1]


@dataclass(frozen=True, slots=True, eq=False)
class Gate(Difference[bool | None]):
    """A feature gate that changes what a simulated kubelet does.

    Its values are its default; None where there is no such gate yet, and the feature is missing.

    Attributes:
        name: as in a kubelet's ``featureGates``.
        removed: the minor without the gate, with the feature as it was by default; empty for none.
    """

    name: str = field(kw_only=True)
    removed: str = field(default="", kw_only=True)

    def exists(self, release: Version) -> bool:
        """Whether a kubelet of a release takes the gate."""
        return self.at(release) is not None and not (self.removed and release >= _first(self.removed))

    def is_on(self, release: Version, chosen: Mapping[str, bool]) -> bool:
        """Whether the feature is on, where a user has set these gates."""
        default = self.at(release)
        return default is not None and chosen.get(self.name, default)


def _first(release: str) -> Version:
    """Return the first patch that a release names: ``1.34`` begins with 1.34.0."""
    minor, _, patch = release.removeprefix("1.").partition(".")
    return Version(int(minor), int(patch or 0))


DYNAMIC_RESOURCES: Final = "DynamicResourceAllocation"
EXTENDED_CLAIMS: Final = "DRAExtendedResource"
FEATURE_GATES: Final[Mapping[str, Gate]] = {
    gate.name: gate
    for gate in (
        Gate(
            "a container's own restart policy and rules count",
            {"1.26": None, "1.34": False, "1.35": True},
            "pkg/features/kube_features.go (kubernetes v1.33.13, v1.34.4, v1.35.4)",
            name="ContainerRestartRules",
        ),
        Gate(
            "a plugin may answer Allocate with CDI devices",
            {"1.26": None, "1.28": False, "1.29": True},
            "pkg/features/kube_features.go; devicemanager/pod_devices.go, ``deviceRunContainerOptions`` "
            "(kubernetes v1.27.16, v1.28.15, v1.29.6, v1.34.4)",
            name="DevicePluginCDIDevices",
            removed="1.34",
        ),
        Gate(
            "the kubelet has a DRA manager, which is simulated from 1.32 on; without it pods start without claims",
            {"1.26": None, "1.32": False, "1.34": True},
            "pkg/features/kube_features.go; cm/container_manager_linux.go, ``NewContainerManager`` "
            "(kubernetes v1.31.14, v1.32.13, v1.33.13, v1.34.4)",
            name=DYNAMIC_RESOURCES,
        ),
        Gate(
            "the API server keeps `derivedAttributes` of requests, which the scheduler does not derive here",
            {"1.26": None, "1.37": False},
            "pkg/features/kube_features.go (kubernetes v1.36.3, v1.37.2)",
            name="DRADerivedAttributes",
        ),
        Gate(
            "the API server keeps `compatibilityGroups` of counters that devices consume, which the scheduler does not "
            "compare here",
            {"1.26": None, "1.37": False},
            "pkg/features/kube_features.go (kubernetes v1.36.3, v1.37.2)",
            name="DRADeviceCompatibilityGroups",
        ),
        Gate(
            "an extended resource that a DeviceClass names is served by DRA drivers where the node has none of it, "
            "which is simulated from 1.35 on",
            {"1.26": None, "1.35": False, "1.36": True},
            "pkg/features/kube_features.go (kubernetes v1.34.4, v1.35.4, v1.36.3, v1.37.2)",
            name=EXTENDED_CLAIMS,
        ),
        Gate(
            "the API server takes fractions in the ranges of capacities that claims share",
            {"1.26": None, "1.37": False},
            "pkg/features/kube_features.go, pkg/apis/resource/validation/validation.go, ``validateRequestPolicyRange`` "
            "(kubernetes v1.36.3, v1.37.2)",
            name="DRAFractionalCapacityRange",
        ),
        Gate(
            "the API server keeps lists as values of attributes of devices, which constraints do not compare here",
            {"1.26": None, "1.36": False},
            "pkg/features/kube_features.go (kubernetes v1.35.4, v1.36.3)",
            name="DRAListTypeAttributes",
        ),
        Gate(
            "the API server keeps what devices take of their node's resources, which the scheduler does not count here",
            {"1.26": None, "1.36": False},
            "pkg/features/kube_features.go (kubernetes v1.35.4, v1.36.3)",
            name="DRANodeAllocatableResources",
        ),
        Gate(
            "the API server keeps `skipNodeOperations` of slices and claims, which kubelets do not skip here",
            {"1.26": None, "1.37": False},
            "pkg/features/kube_features.go (kubernetes v1.36.3, v1.37.2)",
            name="DRAOptionalNodeOperations",
        ),
        Gate(
            "PodResources lists the claims of containers",
            {"1.26": None, "1.27": False, "1.34": True},
            "pkg/features/kube_features.go; apis/podresources/server_v1.go, ``getContainerResources`` "
            "(kubernetes v1.26.15, v1.27.16, v1.33.13, v1.34.4)",
            name="KubeletPodResourcesDynamicResources",
        ),
        Gate(
            "PodResources answers Get",
            {"1.26": None, "1.27": False, "1.34": True},
            "pkg/features/kube_features.go (kubernetes v1.26.15, v1.27.16, v1.33.13, v1.34.4)",
            name="KubeletPodResourcesGet",
        ),
        Gate(
            "List of PodResources leaves out pods that have ended",
            {"1.26": None, "1.34": True},
            "pkg/features/kube_features.go; apis/podresources/server_v1.go, ``List`` (kubernetes v1.33.13, v1.34.4)",
            name="KubeletPodResourcesListUseActivePods",
        ),
        Gate(
            "a pod's status has the condition of that name",
            {"1.26": None, "1.28": False, "1.29": True},
            "pkg/features/kube_features.go (kubernetes v1.27.16, v1.28.15, v1.29.6)",
            name="PodReadyToStartContainersCondition",
        ),
        Gate(
            "the back-off of containers is at most a minute",
            {"1.26": None, "1.33": False},
            "pkg/features/kube_features.go (kubernetes v1.32.13, v1.33.13)",
            name="ReduceDefaultCrashLoopBackOffDecay",
        ),
        Gate(
            "a container's status has the health of its devices",
            {"1.26": None, "1.31": False, "1.36": True},
            "pkg/features/kube_features.go (kubernetes v1.30.14, v1.31.14, v1.35.4, v1.36.3)",
            name="ResourceHealthStatus",
        ),
        Gate(
            "restartable init containers run beside the others; with the gate off their pod is rejected, and "
            "where there is no gate yet they are init containers as any",
            {"1.26": None, "1.28": False, "1.29": True},
            "pkg/features/kube_features.go; kubelet/lifecycle/predicate.go, ``Admit`` (kubernetes v1.27.16, "
            "v1.28.15, v1.29.6, v1.37.0)",
            name="SidecarContainers",
            removed="1.37",
        ),
        Gate(
            "the topology manager takes options that are alpha",
            {"1.26": False},
            "pkg/features/kube_features.go (kubernetes v1.26.15)",
            name="TopologyManagerPolicyAlphaOptions",
        ),
        Gate(
            "the topology manager takes options that are beta",
            {"1.26": False, "1.28": True},
            "pkg/features/kube_features.go (kubernetes v1.27.16, v1.28.15)",
            name="TopologyManagerPolicyBetaOptions",
        ),
        Gate(
            "the topology manager takes options",
            {"1.26": False, "1.28": True},
            "pkg/features/kube_features.go (kubernetes v1.27.16, v1.28.15)",
            name="TopologyManagerPolicyOptions",
        ),
    )
}
"""Name -> the gate, of those that change what a simulated kubelet does."""
