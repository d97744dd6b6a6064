"""The devices that a node can reach, by pool.

Source: k8s.io/dynamic-resource-allocation v0.34.4, structured/internal/experimental/pools_experimental.go; v0.35.4,
structured/internal/incubating/pools_incubating.go; v0.36.3, v0.37.2, likewise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, TypeAlias

from ....model.resources import parse_quantity
from ....model.version import Difference, Version
from ...cel.run import Effort
from ...objects.device_selector import DeviceView, compiled_selector, device_view
from ...objects.node_selection import matches_term

__all__ = [
    "KNOWS_CONDITIONS",
    "PASSES_OVER_POOLS",
    "Counters",
    "Device",
    "DeviceID",
    "Nodes",
    "Pool",
    "Slice",
    "Slices",
    "gather_pools",
]

KNOWS_CONDITIONS: Final = Difference(
    "the scheduler allocates devices with binding conditions, after those of pools without any, binds pods when the "
    "conditions are true, and writes into an allocation when it was made",
    {"1.26": False, "1.36": True},
    "pkg/features/kube_features.go, ``DRADeviceBindingConditions``; "
    "k8s.io/dynamic-resource-allocation v0.35.4, v0.36.3, structured/internal/incubating",
)

PASSES_OVER_POOLS: Final = Difference(
    "the scheduler passes over a pool that is incomplete or invalid, and counts its slices for other nodes too; "
    "before, requests for a number of devices are served from what is there, and an invalid pool ends the try",
    {"1.26": False, "1.35": True},
    "k8s.io/dynamic-resource-allocation v0.34.4, v0.35.4, structured/internal/incubating",
)

_TAKES_ALL_COUNTERS: Final = Difference(
    "a node has the pools of all slices with counters, whichever nodes these name; from 1.37 on only pools of which a "
    "slice names it",
    {"1.26": True, "1.37": False},
    "k8s.io/dynamic-resource-allocation v0.36.6, v0.37.0, structured/internal/incubating/pools_incubating.go, "
    "``GatherPools``",
)

Counters: TypeAlias = Mapping[tuple[str, str], Decimal]
"""Set and counter -> amount."""

_MOST_ANSWERS: Final = 64


class DeviceID(NamedTuple):
    """The name of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that a slice, or a device of one that leaves it to its devices, is for: one field says it.

    Source: pools_incubating.go, ``NodeMatches``.
    """

    name: str
    are_all: bool
    selector: Mapping[str, Any] | None

    @classmethod
    def of(cls, part: Mapping[str, Any]) -> Nodes:
        """Those that a slice's spec or a device names."""
        return cls(part.get("nodeName") or "", bool(part.get("allNodes")), part.get("nodeSelector"))

    @property
    def terms(self) -> Sequence[Mapping[str, Any]]:
        """The terms of the selector."""
        return (self.selector or {}).get("nodeSelectorTerms") or ()

    def include(self, node: str, labels: Mapping[str, str]) -> bool:
        if self.name:
            return self.name == node
        return self.are_all or any(matches_term(term, labels, node) for term in self.terms)


class Device:
    """A device of a slice; `spec` is its entry there."""

    def __init__(self, device_id: DeviceID, spec: Mapping[str, Any], of_slice: Slice) -> None:
        self.id = device_id
        self.spec = spec
        self.slice = of_slice
        self._answers: dict[str, bool] = {}

    def matches(self, expression: str, release: Version, effort: Effort) -> bool:
        """Whether an expression in CEL selects it for the scheduler of a release.

        The answer is kept, as a device of a slice never changes.

        Raises:
            CompileError: it is no expression.
            SelectorError: it cannot be evaluated for this device.
            ExhaustedError: the answer is not known, and the search for devices has no more effort for it.
        """
        known = self._answers.get(expression)
        if known is None:
            if len(self._answers) == _MOST_ANSWERS:
                self._answers.clear()
            selector = effort.prepared(expression, partial(compiled_selector, release=release))
            known = selector.matches(self._view, effort)
            self._answers[expression] = known
        return known

    @cached_property
    def consumed(self) -> Counters:
        """What it takes of the counters that the devices of its pool share."""
        return _counters((one["counterSet"], one) for one in self.spec.get("consumesCounters") or ())

    @property
    def nodes(self) -> Nodes:
        """The nodes that it is for."""
        return self._own_nodes if self.slice.nodes is None else self.slice.nodes

    @cached_property
    def _own_nodes(self) -> Nodes:
        return Nodes.of(self.spec)

    @property
    def is_shared(self) -> bool:
        """Whether it may be allocated several times; no device is before 1.36, where the API server drops the field."""
        return bool(self.spec.get("allowMultipleAllocations"))

    @property
    def binding_conditions(self) -> Sequence[str]:
        """Conditions that must be true of it before a pod that gets it is bound."""
        return self.spec.get("bindingConditions") or ()

    @property
    def capacities(self) -> Mapping[str, Mapping[str, Any]]:
        """Its capacities: name -> ``value`` and ``requestPolicy``."""
        return self.spec.get("capacity") or {}

    @cached_property
    def _view(self) -> DeviceView:
        return device_view(self.id.driver, self.spec)

    def attribute(self, qualified_name: str) -> Mapping[str, Any] | None:
        """The attribute of a name with domain; the domain of the driver may be left out in the slice.

        Source: allocator_experimental.go, ``lookupAttribute``.
        """
        attributes: Mapping[str, Mapping[str, Any]] = self.spec.get("attributes") or {}
        domain, slash, identifier = qualified_name.partition("/")
        if qualified_name in attributes or not slash or domain != self.id.driver:
            return attributes.get(qualified_name)
        return attributes.get(identifier)


class Slice:
    """One ResourceSlice, read once.

    Attributes:
        nodes: the nodes that it is for; None where each device has its own, which is from 1.36 on: before, the API
            server drops the field.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        spec = body["spec"]
        pool = spec.get("pool") or {}
        self.name: str = body["metadata"]["name"]
        self.driver: str = spec.get("driver") or ""
        self.pool: str = pool.get("name") or ""
        self.generation = int(pool.get("generation") or 0)
        self.slice_count = int(pool.get("resourceSliceCount") or 0)
        self.nodes = None if spec.get("perDeviceNodeSelection") else Nodes.of(spec)
        self.counter_sets: tuple[Mapping[str, Any], ...] = tuple(spec.get("sharedCounters") or ())
        self.devices = tuple(
            Device(DeviceID(self.driver, self.pool, each["name"]), each, self) for each in spec.get("devices") or ()
        )
        self.has_conditions = any(device.binding_conditions for device in self.devices)

    def is_reached_from(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether devices of it are those of a node; with the one that is, a node gets the others to look at."""
        if self.nodes is None:
            return any(device.nodes.include(node, labels) for device in self.devices)
        return self.nodes.include(node, labels)

    @property
    def only_node(self) -> str:
        """The only node that can have use for it; empty where there may be several."""
        return "" if self.counter_sets or self.nodes is None else self.nodes.name


class Slices:
    """All ResourceSlices of a cluster, by node and by pool."""

    def __init__(self, bodies: Iterable[Mapping[str, Any]] = ()) -> None:
        self._of_nodes: defaultdict[str, dict[str, Slice]] = defaultdict(dict)
        self._of_pools: defaultdict[tuple[str, str], dict[str, Slice]] = defaultdict(dict)
        for body in bodies:
            self.put(body)

    def put(self, body: Mapping[str, Any]) -> None:
        """Add a slice; one of its name must have been removed."""
        new = Slice(body)
        self._of_nodes[new.only_node][new.name] = new
        self._of_pools[new.driver, new.pool][new.name] = new

    def remove(self, body: Mapping[str, Any]) -> None:
        """Remove a slice that was put."""
        old = Slice(body)
        del self._of_nodes[old.only_node][old.name]
        del self._of_pools[old.driver, old.pool][old.name]

    def for_node(self, node: str) -> list[Slice]:
        """The slices of a node and those that may be for several, by name."""
        found = {**self._of_nodes.get(node, {}), **self._of_nodes.get("", {})}
        return [found[name] for name in sorted(found)]

    def of_pool(self, driver: str, pool: str) -> Iterable[Slice]:
        """The slices of a pool, for any node and of any generation."""
        return self._of_pools.get((driver, pool), {}).values()


@dataclass
class Pool:
    """The slices of the newest generation of a pool that a node can reach.

    Attributes:
        node: the node's name.
        labels: those of the node.
        others: from 1.35 on, its slices for other nodes.
        is_replaced: for other nodes there is a newer generation already.
    """

    driver: str
    name: str
    node: str
    labels: Mapping[str, str]
    slices: list[Slice] = field(default_factory=list)
    others: list[Slice] = field(default_factory=list)
    is_replaced: bool = False

    @property
    def id(self) -> str:
        return f"{self.driver}/{self.name}"

    @property
    def devices(self) -> Iterator[Device]:
        """Those of its slices for the node; of a slice whose devices choose their nodes there may be others among them.

        They count in all but the choice: for the names of the pool, its counters, and the order of pools.
        """
        return (device for each in self.slices for device in each.devices)

    @property
    def devices_of_all_nodes(self) -> Iterator[Device]:
        return (device for each in (*self.slices, *self.others) for device in each.devices)

    @property
    def is_incomplete(self) -> bool:
        return len(self.slices) + len(self.others) != self.slices[0].slice_count

    @property
    def has_conditions(self) -> bool:
        """Whether devices of it that can be used have binding conditions."""
        return any(each.has_conditions for each in self.slices) and not (self.is_incomplete or self.fault)

    @cached_property
    def counters(self) -> Counters:
        """What there is for all its devices together."""
        return _counters((one["name"], one) for one in self._counter_sets)

    @property
    def _counter_sets(self) -> Iterator[Mapping[str, Any]]:
        """Those of all its slices: they may be for other nodes than the devices that consume of them."""
        return (one for each in (*self.slices, *self.others) for one in each.counter_sets)

    def reaches(self, device: Device) -> bool:
        """Whether the node may use one of `devices`."""
        return device.slice.nodes is not None or device.nodes.include(self.node, self.labels)

    @cached_property
    def fault(self) -> str:
        """Why no device of it may be used; empty where they may."""
        names: set[str] = set()
        for device in self.devices:
            if device.id.device in names:
                return f"duplicate device name {device.id.device}"
            names.add(device.id.device)
        return self._fault_of_counters()

    def _fault_of_counters(self) -> str:
        sets = [one["name"] for one in self._counter_sets]
        twice = next((name for place, name in enumerate(sets) if name in sets[:place]), None)
        if twice is not None:
            return f"duplicate counter set name {twice}"
        for device in self.devices_of_all_nodes:
            for name, counter in device.consumed:
                if name not in sets:
                    return f"counter set {name} not found"
                if (name, counter) not in self.counters:
                    return f"counter {counter} not found in counter set {name}"
        return ""

    def take(self, new: Slice) -> None:
        """Add a slice that is as new as those that are here, or replace them all with a newer one."""
        generation = self.slices[0].generation if self.slices else new.generation
        if new.generation > generation:
            self.slices.clear()
        if new.generation >= generation:
            self.slices.append(new)

    def look_beyond(self, all_slices: Iterable[Slice]) -> None:
        """Take the slices that the node cannot reach, where some are missing."""
        generation = self.slices[0].generation
        if self.is_incomplete:
            known = {each.name for each in self.slices}
            others = [each for each in all_slices if each.name not in known]
            self.is_replaced = any(each.generation > generation for each in others)
            self.others = [each for each in others if each.generation == generation]


def _counters(sets: Iterable[tuple[str, Mapping[str, Any]]]) -> Counters:
    return {
        (name, counter): parse_quantity(amount["value"])
        for name, one in sets
        for counter, amount in (one.get("counters") or {}).items()
    }


def gather_pools(slices: Slices, node: str, labels: Mapping[str, str], release: Version) -> list[Pool]:
    """The pools with devices for a node, by driver and name; from 1.36 on those with binding conditions come last.

    The real order of 1.34 and 1.35 is that of a Go map, another one each time; from 1.36 on it is this one.
    """
    takes_counters = _TAKES_ALL_COUNTERS.at(release)
    pools: dict[tuple[str, str], Pool] = {}
    for each in slices.for_node(node):
        if (takes_counters and each.counter_sets) or each.is_reached_from(node, labels):
            pools.setdefault((each.driver, each.pool), Pool(each.driver, each.pool, node, labels)).take(each)
    found = [pools[key] for key in sorted(pools)]
    if PASSES_OVER_POOLS.at(release):
        for pool in found:
            pool.look_beyond(slices.of_pool(pool.driver, pool.name))
    current = [pool for pool in found if not pool.is_replaced]
    return sorted(current, key=lambda pool: pool.has_conditions) if KNOWS_CONDITIONS.at(release) else current
