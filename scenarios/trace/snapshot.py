"""What a story's world looks like at one moment: the observations that every backend offers, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    # The agent on a cluster's node imports this module, and has no device manager.
    from simkubelet.devices import DeviceRunOptions

Ids: TypeAlias = Mapping[str, tuple[str, ...]]
"""Resource -> sorted device ids."""
PlacedIds: TypeAlias = Mapping[str, Mapping[str, Sequence[int]]]
"""Resource -> device id -> its NUMA nodes, none where its plugin reports none."""


def together(containers: Iterable[PlacedIds]) -> dict[str, dict[str, Sequence[int]]]:
    """What several containers have."""
    found: dict[str, dict[str, Sequence[int]]] = {}
    for resources in containers:
        for resource, devices in resources.items():
            found.setdefault(resource, {}).update(devices)
    return found


def hardware_of(device: str) -> str:
    """What a device is a replica of; any other is its own."""
    return device.partition("::")[0]


class PluginState(StrEnum):
    """What a plugin's supervisor says about its process."""

    STOPPED = "stopped"
    """Not started yet, or ended because the story wanted it so."""
    RUNNING = "running"
    WAITING = "waiting"
    """Ended, and to be started again when its back-off is over."""
    EXITED = "exited"
    """Ended for good."""


class KubeletState(StrEnum):
    """Whether a node's kubelet is there."""

    RUNNING = "running"
    STOPPED = "stopped"
    CRASHED = "crashed"
    """It ended by a fault of its own, and nobody has started it again."""


class Rpc(StrEnum):
    """The calls that a kubelet makes, and the one that a plugin makes."""

    GET_DEVICE_PLUGIN_OPTIONS = "GetDevicePluginOptions"
    LIST_AND_WATCH = "ListAndWatch"
    GET_PREFERRED_ALLOCATION = "GetPreferredAllocation"
    ALLOCATE = "Allocate"
    PRE_START_CONTAINER = "PreStartContainer"
    REGISTER = "Register"


class Rule(StrEnum):
    """What a plugin's messages have to be, as a tap judges them; see `RULES`."""

    READABLE = "readable"
    VERSION = "version"
    ENDPOINT = "endpoint"
    RESOURCE_NAME = "resourceName"
    SERVES_FIRST = "servesFirst"
    SOCKET_MODE = "socketMode"
    SAME_OPTIONS = "sameOptions"
    ANSWERS = "answers"
    DEVICE_IDS = "deviceIds"
    ID_LENGTH = "idLength"
    HEALTH = "health"
    NUMA_NODES = "numaNodes"
    NEW_LISTS = "newLists"
    RESPONSES = "responses"
    PATHS = "paths"
    DISTINCT_PATHS = "distinctPaths"
    PERMISSIONS = "permissions"
    ENV = "env"
    ENV_SIZE = "envSize"
    CDI_NAMES = "cdiNames"
    PREFERRED_AVAILABLE = "preferredAvailable"
    PREFERRED_REQUIRED = "preferredRequired"
    PREFERRED_SIZE = "preferredSize"


RULES: Final[Mapping[Rule, str]] = {
    Rule.READABLE: "sends messages of the API, which can be decoded",
    Rule.VERSION: "registers with the version `v1beta1`",
    Rule.ENDPOINT: "registers with a bare file name as its endpoint, in the plugin folder",
    Rule.RESOURCE_NAME: "registers the name of an extended resource, such as `example.com/gpu`",
    Rule.SERVES_FIRST: "has its socket before it registers",
    Rule.SOCKET_MODE: "registers a socket that nobody but its owner and group can connect to",
    Rule.SAME_OPTIONS: "registers with the options that it answers to GetDevicePluginOptions",
    Rule.ANSWERS: "answers no call of the kubelet with an error; ListAndWatch may end",
    Rule.DEVICE_IDS: "lists each device once, with an id",
    Rule.ID_LENGTH: "lists ids of at most 63 characters",
    Rule.HEALTH: "lists devices as `Healthy` or `Unhealthy`, in this spelling",
    Rule.NUMA_NODES: "lists no device on a negative NUMA node",
    Rule.NEW_LISTS: "sends no list twice in a row on one stream",
    Rule.RESPONSES: "answers Allocate for as many containers as were asked for",
    Rule.PATHS: "gives containers mounts and device files by absolute paths",
    Rule.DISTINCT_PATHS: "gives a container each mount and each device file once",
    Rule.PERMISSIONS: "gives device files permissions out of `r`, `w` and `m`",
    Rule.ENV: "gives containers variables that have names",
    Rule.ENV_SIZE: "gives containers variables of less than 128 KiB",
    Rule.CDI_NAMES: "names CDI devices in full, as `vendor.com/class=name`",
    Rule.PREFERRED_AVAILABLE: "prefers devices that are available only",
    Rule.PREFERRED_REQUIRED: "prefers those devices, too, that must be included",
    Rule.PREFERRED_SIZE: "prefers as many devices as were asked for, for each container",
}
"""What a plugin does that keeps a rule; the text completes "a plugin …"."""


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """What a kubelet's checkpoint says.

    Attributes:
        pods: Pod -> container -> what it was given; a pod of which nothing else is known goes by its uid.
        registered: The healthy devices of each resource that ever registered.
    """

    pods: Mapping[str, Mapping[str, Ids]]
    registered: Ids


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node's published status; a resource that the status does not name is absent, which is not 0.

    Attributes:
        panic: The first line of what a crashed kubelet wrote; empty for any other.
        pod_resources: What the kubelet's PodResources API calls allocatable.
        pod_resources_get: Pod -> what that API answers to Get, or the text of its error, where it was asked.
        checkpoint: What the kubelet's checkpoint says, or that there is none, or that it cannot be read.
        claims: Claim -> the pods that use it, as the checkpoint of the kubelet's DRA manager has them.
        resource_slices: Driver -> the devices of its ResourceSlices for the node.
        labels: Those of its object.
        annotations: Those of its object.
    """

    name: str
    kubernetes: str
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    kubelet: KubeletState = KubeletState.RUNNING
    panic: str = ""
    pod_resources: PlacedIds = field(default_factory=dict)
    pod_resources_get: Mapping[str, PlacedIds | str] = field(default_factory=dict)
    checkpoint: CheckpointView | Literal["absent", "corrupt"] = "absent"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resource_slices: Ids = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A Kubernetes Event about a pod."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod object and what its containers were given.

    Attributes:
        node: Where it is bound; empty while it is not.
        devices: Container -> resource -> sorted device ids.
        options: Container -> what plugins added to it, as the container runtime was given it.
        labels: Those of its object.
        annotations: Those of its object.
        events: Oldest first.
        restarts: Starts of its containers after their first, added up.
        health: Resource -> device id -> health, as the pod's status reports it; empty where it does not.
        pod_resources: Container -> devices, as the kubelet's PodResources API lists the pod; None where it does not.
    """

    name: str
    phase: str
    reason: str
    message: str
    node: str
    devices: Mapping[str, Ids]
    options: Mapping[str, DeviceRunOptions]
    events: tuple[PodEvent, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0
    health: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pod_resources: Mapping[str, PlacedIds] | None = None

    def held(self) -> dict[str, tuple[str, ...]]:
        """Resource -> sorted ids that the pod's containers hold together; resources without a device are left out."""
        together: dict[str, set[str]] = {}
        for resources in self.devices.values():
            for resource, ids in resources.items():
                together.setdefault(resource, set()).update(ids)
        return {resource: tuple(sorted(ids)) for resource, ids in sorted(together.items()) if ids}


@dataclass(frozen=True, slots=True)
class PluginView:
    """A plugin as its supervisor knows it.

    Attributes:
        restarts: Starts after the first one.
        registrations: Register calls accepted over all its lives.
        refusal: The answer to its latest Register call, empty where that was accepted or there was none.
        calls: RPC -> how often the kubelet made it, and Register -> how often that was answered, over all lives; of a
            stub, or of a plugin with a tap.
        call_log: All that the kubelet called of its latest process, in order.
        connections: How many connections to it are open, through a tap.
        options: Those that it answered to GetDevicePluginOptions last, through a tap.
        breaches: Rule -> how its messages broke it, each way once; through a tap.
        sockets: The sockets that it has in its folder, with a tap.
        exit_status: Of its latest process that has ended, negative for a signal; None where none has.
        exit_s: How long that took to end after the signal to end, in real seconds; None where it got none.
    """

    name: str
    node: str
    state: PluginState
    restarts: int
    registrations: int
    refusal: str = ""
    calls: Mapping[str, int] = field(default_factory=dict)
    call_log: tuple[str, ...] = ()
    connections: int = 0
    options: tuple[str, ...] = ()
    breaches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sockets: tuple[str, ...] = ()
    exit_status: int | None = None
    exit_s: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that can be observed at one moment: nodes and pods by name, and each plugin once for each node."""

    nodes: Mapping[str, NodeView]
    pods: Mapping[str, PodView]
    plugins: tuple[PluginView, ...]
