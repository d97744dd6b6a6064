"""Random machines, topology policies and pods: our topology manager decides as the real one does.

Each example is one machine with the plugins of up to three resources, and a few pods one after the other. Hints,
verdicts, affinities and devices are compared before and after each admission. Where the real manager takes devices out
of a Go map, their number is compared and the example ends: what comes after depends on the choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from tests.support.kubelet_sides import Answer, Programs, Sides
from tests.support.oracle import EXAMPLES, ROUNDS, SEED, compared
from tests.support.patience import ASKED_LIMIT_MS

pytestmark = pytest.mark.oracle

SHARDS = 2 * ROUNDS
PLUGINS = ("a", "b", "c")
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
MOST_NODES = {1: 8, 2: 6, 3: 4}
"""By the number of resources: the real manager walks over all combinations of their hints."""
MEASURED = {"t", "us", "seen_t", "send_t", "took_us", "stop_us", "start_us"}

Limits = Mapping[str, int]


class ChoiceIsFreeError(Exception):
    """The two managers may have taken different devices, and both were right."""


@dataclass(frozen=True)
class Machine:
    """NUMA nodes, which may be none, their distances by place, and the topology manager's settings."""

    numa: Sequence[int]
    distances: Sequence[Sequence[int]]
    policy: str
    scope: str
    options: Mapping[str, str]

    def fields(self) -> dict[str, Any]:
        return {
            "numa": list(self.numa),
            "distances": self.distances,
            "topology_policy": self.policy,
            "topology_scope": self.scope,
            "topology_options": self.options,
        }


@dataclass(frozen=True)
class Resource:
    """A plugin's devices by their NUMA nodes, None for no topology, and how it chooses among them."""

    numa: Sequence[Sequence[int] | None]
    preference: str

    def devices(self) -> list[Mapping[str, Any]]:
        return [
            {"id": f"dev-{number}", "health": "Healthy", **({} if nodes is None else {"numa": nodes})}
            for number, nodes in enumerate(self.numa)
        ]


@dataclass(frozen=True)
class PodPlan:
    """Init containers as (restartable, limits), app containers as limits, and whether the pod ends after admission."""

    init: Sequence[tuple[bool, Limits]]
    apps: Sequence[Limits]
    ends: bool

    def containers(self) -> list[tuple[str, bool, Limits]]:
        """Name, whether its devices go to the next container, and limits; in the order of admission."""
        init = [(f"i{n}", not restarts, limits) for n, (restarts, limits) in enumerate(self.init)]
        return init + [(f"c{n}", False, limits) for n, limits in enumerate(self.apps)]


@dataclass(frozen=True)
class Plan:
    """One example."""

    machine: Machine
    resources: Mapping[str, Resource]
    pods: Sequence[PodPlan]
    restarts: bool


@st.composite
def machines(draw: st.DrawFn, most_nodes: int) -> Machine:
    count = draw(st.integers(0, most_nodes))
    policy = draw(st.sampled_from(POLICIES + POLICIES[1:] * 2))
    options = draw(
        st.sampled_from(
            [
                {},
                {},
                {"prefer-closest-numa-nodes": "true"},
                {"prefer-closest-numa-nodes": "true"},
                {"prefer-closest-numa-nodes": "false", "max-allowable-numa-nodes": "8"},
            ]
        )
    )
    numa = list(range(count))
    if not options:
        # With distances the kubelet looks up a node by its number, which only works on a machine without gaps.
        numa = sorted(draw(st.sets(st.integers(0, 11), min_size=count, max_size=count)))
    # Of themselves, draws are too much alike to tell one pair of nodes from another.
    random = draw(st.randoms(use_true_random=False))
    distances = [[10 if one == other else random.choice((11, 12, 20, 21, 40)) for other in numa] for one in numa]
    return Machine(numa, distances, policy, draw(st.sampled_from(["container", "pod"])), options)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    names = [f"example.com/{plugin}" for plugin in PLUGINS[: draw(st.sampled_from([1, 1, 2, 2, 3]))]]
    machine = draw(machines(MOST_NODES[len(names)]))
    # Plugins may name nodes that the machine does not have, as all do where it has none.
    listed = machine.numa or [0, 1]
    node = st.sampled_from(listed)
    nodes = st.one_of(
        *[st.lists(node, min_size=1, max_size=1)] * 6,
        st.lists(node, min_size=2, max_size=2),
        st.sampled_from([None, [], [-1], [12]]),
    )
    one_on_each = st.permutations(listed).map(lambda numa: [[node] for node in numa])
    devices = st.one_of(st.lists(nodes, min_size=1, max_size=9), st.lists(nodes, min_size=6, max_size=9), one_on_each)
    preference = st.sampled_from(["first", "first", "last", ""] if draw(st.booleans()) else ["first", "last"])
    resources = {name: Resource(draw(devices), draw(preference)) for name in names}
    limits = st.one_of(
        st.dictionaries(st.sampled_from(names), st.sampled_from([1, 1, 1, 2, 2, 3, 4, 5, 0]), max_size=3),
        st.fixed_dictionaries({name: st.integers(1, len(listed)) for name in names}),
    )
    init = st.one_of(st.just([]), st.lists(st.tuples(st.booleans(), limits), max_size=2))
    pod = st.builds(PodPlan, init, st.lists(limits, min_size=1, max_size=2), st.booleans())
    return Plan(
        machine, resources, draw(st.lists(pod, min_size=1, max_size=3)), draw(st.sampled_from([False] * 3 + [True]))
    )


def told(answer: Answer) -> Answer:
    return {key: value for key, value in answer.items() if key not in MEASURED}


class Play:
    """One plan on both sides."""

    def __init__(self, sides: Sides, plan: Plan) -> None:
        self.sides = sides
        self.plan = plan
        self.uids: list[str] = []

    def same(self, whom: str, cmd: str, **fields: Any) -> Answer:
        real, ours = self.sides.ask(whom, cmd, **fields)
        note(f"{whom}: {cmd} {fields} -> {told(real)}")
        assert told(ours) == told(real), f"{whom}: {cmd} {fields}"
        return real

    def run(self) -> None:
        if not self.same("kubelet", "start", sources_ready=True, running=[], **self.plan.machine.fields())["ok"]:
            # A minor that does not know these options.
            return
        for plugin, name in zip(PLUGINS, self.plan.resources, strict=False):
            resource = self.plan.resources[name]
            self.sides.reset(plugin, socket=f"{plugin}.sock", resource=name, preferred=bool(resource.preference))
            self.same(plugin, "set_rpc", rpc="preferred", mode=resource.preference)
            self.same(plugin, "set_devices", devices=resource.devices())
        self.register_all()
        for number, pod in enumerate(self.plan.pods):
            self.come(f"u{number}", pod)
        if self.plan.restarts:
            self.restart()

    def register_all(self) -> None:
        for plugin, (name, resource) in zip(PLUGINS, self.plan.resources.items(), strict=False):
            self.same(plugin, "register")
            self.same("kubelet", "wait_capacity", resource=name, capacity=len(resource.numa), timeout_ms=ASKED_LIMIT_MS)

    def come(self, uid: str, pod: PodPlan) -> None:
        init = [
            {"name": f"i{n}", "restartable": restarts, "limits": limits}
            for n, (restarts, limits) in enumerate(pod.init)
        ]
        apps = [{"name": f"c{n}", "limits": limits} for n, limits in enumerate(pod.apps)]
        self.same("kubelet", "add_pod", uid=uid, name=uid, init_containers=init, containers=apps)
        self.uids.append(uid)
        self.look_at_hints(uid, pod)
        is_admitted = self.admit(uid, pod)
        self.look_at_hints(uid, pod)
        if pod.ends or not is_admitted:
            self.same("kubelet", "remove_pod", pod=uid)

    def look_at_hints(self, uid: str, pod: PodPlan) -> None:
        for name, _, _ in pod.containers():
            self.same("kubelet", "topology_hints", pod=uid, container=name)
        self.same("kubelet", "pod_topology_hints", pod=uid)

    def admit(self, uid: str, pod: PodPlan) -> bool:
        """Admit a pod on both sides; whether it was admitted."""
        real, ours = self.sides.ask("kubelet", "admit", pod=uid)
        note(f"admit {uid} {pod} -> {told(real)}")
        has_failed = "container" in real or "container" in ours
        if has_failed and any(len(limits) > 1 for _, _, limits in pod.containers()):
            # The resources of one container come in any order.
            raise ChoiceIsFreeError
        is_free = self.is_free(pod)
        if told(real) != told(ours):
            assert is_free, (told(ours), told(real))
            raise ChoiceIsFreeError
        for name, _, _ in pod.containers():
            self.compare_container(uid, name, is_free)
        return bool(real["ok"])

    def compare_container(self, uid: str, name: str, is_free: bool) -> None:
        affinities = [told(answer) for answer in self.sides.ask("kubelet", "get_affinity", pod=uid, container=name)]
        held = [answer["devices"] for answer in self.sides.ask("kubelet", "devices", pod=uid, container=name)]
        note(f"{uid} {name}: {affinities[0]} {held[0]}")
        if is_free and (affinities[0] != affinities[1] or held[0] != held[1]):
            assert sizes(held[0]) == sizes(held[1])
            raise ChoiceIsFreeError
        assert affinities[1] == affinities[0]
        assert held[1] == held[0]

    def is_free(self, pod: PodPlan) -> bool:
        """Whether the real manager may take devices for the pod out of a set in any order."""
        left: dict[str, int] = {}
        for _, leaves_devices, limits in pod.containers():
            for name, count in limits.items():
                if count and (not self.plan.resources[name].preference or left.get(name, 0) > count):
                    return True
                left[name] = max(left.get(name, 0), count if leaves_devices else 0)
        return False

    def restart(self) -> None:
        """The next kubelet reads the checkpoint, and the pods that are still there are admitted again."""
        self.same("kubelet", "restart", sources_ready=True, running=[])
        for plugin, _ in zip(PLUGINS, self.plan.resources, strict=False):
            self.same(plugin, "start_server")
        self.register_all()
        for uid, pod in zip(self.uids, self.plan.pods, strict=False):
            if not pod.ends:
                self.look_at_hints(uid, pod)
                self.admit(uid, pod)

    def end(self) -> None:
        for side in self.sides.both:
            side.revive(self.sides.plugins, is_kubelet_lost=False)
            for plugin in self.sides.plugins:
                side.programs[plugin].ask("stop_server")
            side.programs["kubelet"].ask("stop")
            for uid in self.uids:
                side.programs["kubelet"].ask("forget_pod", pod=uid)
            side.clear_folder()


def sizes(held: Mapping[str, Sequence[object]]) -> Mapping[str, int]:
    return {name: len(devices) for name, devices in held.items()}


@pytest.fixture(scope="session")
def sides(oracle_programs: Programs) -> Iterator[Sides]:
    both = Sides(oracle_programs, PLUGINS)
    yield both
    both.close()


options_of_all_minors = st.dictionaries(
    st.sampled_from(["prefer-closest-numa-nodes", "max-allowable-numa-nodes", "prefer-nothing"]),
    st.sampled_from(["true", "false", "T", "yes", "", "8", "+8", "7", "12", "9999999999999999999", "8.0"]),
    max_size=1,
)


@seed(SEED)
@settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(count=st.integers(0, 12), policy=st.sampled_from(POLICIES), options=options_of_all_minors)
def test_machine_is_accepted_or_refused_alike(
    sides: Sides, count: int, policy: str, options: Mapping[str, str]
) -> None:
    machine = Machine(range(count), [[10] * count] * count, policy, "container", options)
    real, ours = sides.ask("kubelet", "start", sources_ready=True, running=[], **machine.fields())
    sides.ask("kubelet", "stop")

    assert told(ours) == told(real)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_pods_are_admitted_as_by_real_topology_manager(sides: Sides, shard: int) -> None:
    @seed(SEED + shard)
    @compared()
    @given(plan=plans())
    def same(plan: Plan) -> None:
        play = Play(sides, plan)
        try:
            with suppress(ChoiceIsFreeError):
                play.run()
        finally:
            play.end()

    same()
