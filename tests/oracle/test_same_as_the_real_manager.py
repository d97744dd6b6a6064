"""Random commands to the real device manager and to ours: every answer and every book must be the same.

The plugins of both sides are the same Go program and get the same commands; see `compared_managers` for how the
two are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from simkubelet.devices.health_updates import FINDS_PODS_BY_RESOURCE, HEALTH_UPDATE_QUEUE
from simkubelet.model.version import FEATURE_GATES, version
from tests.support.compared_managers import SECOND, STUB, ComparedManagers
from tests.support.kubelet_sides import Programs, Sides
from tests.support.oracle import EXAMPLES, ROUNDS, SEED, compared

pytestmark = pytest.mark.oracle

SHARDS = 10 * ROUNDS
STEPS = 16
MOST_PODS = 6

health = st.sampled_from(["Healthy"] * 5 + ["Unhealthy", "weird"])
numa = st.sampled_from([None, None, [0], [1], [0, 1], [3], []])


def listed(*devices: tuple[str, list[int] | None]) -> list[Any]:
    """A list with one id for each device."""
    return [(number, health, nodes) for number, (health, nodes) in enumerate(devices)]


device_lists = st.one_of(
    st.lists(st.tuples(health, numa), max_size=5).map(lambda devices: listed(*devices)),
    st.lists(st.tuples(health, numa), min_size=4, max_size=6).map(lambda devices: listed(*devices)),
    *[st.just(listed(*[("Healthy", None)] * 6))] * 2,
    *[st.just(listed(*[("Healthy", [0])] * 3, *[("Healthy", [1])] * 3))] * 2,
    st.lists(st.tuples(st.integers(0, 3), health, numa), max_size=6),
)
counts = st.sampled_from([1, 1, 2, 2, 3, 0])
limits = st.one_of(
    *[st.fixed_dictionaries({STUB: counts})] * 4,
    st.fixed_dictionaries({SECOND: counts}),
    st.fixed_dictionaries({STUB: counts, SECOND: counts}),
    st.just({}),
)
plugins = st.sampled_from("aab")
pods = st.tuples(
    st.one_of(st.just([]), st.lists(st.tuples(st.booleans(), limits), max_size=2)),
    st.lists(limits, min_size=1, max_size=2),
    st.sampled_from([True, True, True, False]),
)
ways_to_ask = st.sampled_from(["allocate", "allocate", "admit", "run_options", "run_options"])
ways_to_register = st.sampled_from(
    [
        "",
        "",
        "with other options",
        "of another version",
        "under a wrong name",
        "found by the plugin watcher",
        "found with another version",
        "lost by the plugin watcher",
    ]
)
ways_to_end = st.sampled_from(["remove_pod", "remove_pod", "forget_pod"])
ways_to_leave = st.sampled_from(["cut", "cut by error", "ended", "ended", "killed"])
comings_back = st.sampled_from(["", "a", "b", "ab", "ab", "ab"])
ways_to_answer = st.sampled_from(
    [("allocate", mode) for mode in ("", "full", "zero", "two", "empty", *["error"] * 4)]
    + [("preferred", mode) for mode in ("first", "last", "first", "many", "few", "none", "unavailable", "error")]
    + [("prestart", "error"), ("prestart", ""), ("options", "error"), ("options", "")]
)


places = st.integers(0, MOST_PODS - 1)
"""The place of one of some pods or containers, counted on from the first where there are fewer."""


def step(**drawn: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """What can happen as long as both managers go on.

    Neither whether a step can be chosen nor what it draws depends on answers: the real manager takes devices in the
    order of Go's maps, so a repeated sequence may get others, and Hypothesis repeats what it has drawn.
    """

    def made(do: Callable[..., None]) -> Callable[..., None]:
        @wraps(do)
        def do_if_both_go_on(self: BothManagers, *given: Any, **drawn: Any) -> None:
            if self.can_go_on:
                do(self, *given, **drawn)

        return rule(**drawn)(do_if_both_go_on)

    return made


class BothManagers(ComparedManagers):
    """What can happen."""

    def active_at(self, place: int) -> list[str]:
        """The active pod at a place; none where no pod is active."""
        return sorted(self.active)[place % len(self.active) :][:1] if self.active else []

    @initialize(
        layout=st.sampled_from(["replacement", "same socket", "two resources", "two resources"]),
        nodes=st.sampled_from([1, 2, 2, 2, 4, 0]),
        policy=st.sampled_from(["none", "none", "none", "best-effort", "restricted", "single-numa-node"]),
        scope=st.sampled_from(["container", "pod"]),
        prefers=st.sampled_from([True, True, True, False]),
        lists=st.tuples(device_lists, device_lists),
        has_gate=st.booleans(),
        first_pod=pods,
    )
    def begin(
        self,
        layout: str,
        nodes: int,
        policy: str,
        scope: str,
        prefers: bool,
        lists: Any,
        has_gate: bool,
        first_pod: Any,
    ) -> None:
        behaviour = version(self.minor)
        # Without a queue (1.31) a manager waits, and holds its lock, until somebody takes each change of health.
        gate = FEATURE_GATES["ResourceHealthStatus"]
        self.tells_health = bool(HEALTH_UPDATE_QUEUE.at(behaviour)) and (has_gate or bool(gate.at(behaviour)))
        if gate.exists(behaviour):
            self.kubelet("set_gate", name="ResourceHealthStatus", value=self.tells_health)
        topology = {"numa": list(range(nodes)), "topology_policy": policy, "topology_scope": scope}
        self.set_up(layout, prefers=prefers, lists=lists, **topology)
        self.add_pod(*first_pod)

    # Plugins

    @step(plugin=plugins, way=ways_to_register)
    def plugin_registers(self, plugin: str, way: str) -> None:
        socket, resource = self.sockets[plugin], self.resources[plugin]
        if way == "of another version":
            self.same(plugin, "register", version="v1")
        elif way == "under a wrong name":
            self.same(plugin, "register", resource="a.kubernetes.io/x")
        elif way == "lost by the plugin watcher":
            self.kubelet("watcher_deregister", resource=resource, endpoint=socket)
            self.streams.disconnect(resource, socket)
            self.settle_ends()
        elif not self.can_register(plugin):
            pass
        elif way == "found by the plugin watcher":
            self.is_found(plugin, ["v1alpha1", "v1beta1"])
        elif way == "found with another version":
            self.is_found(plugin, ["v1alpha1"])
        else:
            if way == "with other options":
                self.same(plugin, "set_options", prestart=True)
            self.register(plugin)

    @step(plugin=plugins, devices=device_lists)
    def plugin_lists(self, plugin: str, devices: Any) -> None:
        self.take_list(plugin, devices)

    @step(plugin=plugins, way=ways_to_leave, registers=st.booleans())
    def plugin_leaves(self, plugin: str, way: str, registers: bool) -> None:
        """A plugin's streams end; unless they were only cut, a new process serves in its place."""
        if way == "killed":
            for side in self.sides.both:
                side.spawn(plugin)
        elif way == "ended":
            self.same(plugin, "stop_server")
        else:
            self.same(plugin, "close_stream", **({"error": True, "code": "Internal"} if way == "cut by error" else {}))
        self.streams.end(plugin)
        self.settle_ends()
        if not way.startswith("cut"):
            self.serve_anew(plugin, preferred=self.options[plugin])
        if registers and self.can_register(plugin):
            self.register(plugin)

    @step(plugin=plugins, way=ways_to_answer)
    def plugin_answers_otherwise(self, plugin: str, way: tuple[str, str]) -> None:
        rpc, mode = way
        self.modes[plugin, rpc] = mode
        self.same(plugin, "set_rpc", rpc=rpc, mode=mode, code="ResourceExhausted", message="no more")

    # Pods

    @step(pod=pods)
    def pod_comes(self, pod: Any) -> None:
        if len(self.active) < MOST_PODS:
            self.add_pod(*pod)

    @step(pod=pods, plugin=plugins, way=ways_to_answer)
    def pod_comes_when_the_plugin_answers_otherwise(self, pod: Any, plugin: str, way: tuple[str, str]) -> None:
        self.plugin_answers_otherwise(plugin, way)
        self.pod_comes(pod)

    @step(pod=places, container=places, cmd=ways_to_ask)
    def pod_asks(self, pod: int, container: int, cmd: str) -> None:
        for uid in self.active_at(pod):
            name, _ = self.pods[uid][container % len(self.pods[uid])]
            self.allocate(cmd, uid, None if cmd == "admit" else name)

    @step(pod=places, cmd=ways_to_ask)
    def container_starts(self, pod: int, cmd: str) -> None:
        """A container asks, in the order of the pod's containers."""
        for uid in self.active_at(pod):
            for name, _ in self.pods[uid]:
                if self.can_go_on:
                    self.allocate("allocate" if cmd == "admit" else cmd, uid, name)

    @step(
        pod=places,
        how=ways_to_end,
        are_freed=st.booleans(),
        next_pod=pods,
    )
    def pod_ends_and_the_next_comes(self, pod: int, how: str, are_freed: bool, next_pod: Any) -> None:
        for uid in self.active_at(pod):
            self.kubelet(how, pod=uid)
            self.active.discard(uid)
            if how == "forget_pod":
                del self.pods[uid]
            if are_freed:
                self.kubelet("update_allocated")
                self.compare_books()
            self.add_pod(*next_pod)

    # The kubelet

    @step(
        sources_ready=st.booleans(),
        running=st.sampled_from(["none", "first", "all", "all"]),
        is_abandoned=st.booleans(),
        returning=comings_back,
    )
    def kubelet_restarts(self, sources_ready: bool, running: str, is_abandoned: bool, returning: str) -> None:
        containers = [
            {
                "pod_uid": uid,
                "container": name,
                "container_id": f"{uid}-{name}",
                "running": running == "all" or (running == "first" and number == 0),
            }
            for uid in sorted(self.active)
            for number, (name, _) in enumerate(self.pods[uid])
        ]
        self.stop("abandon" if is_abandoned else "stop")
        self.start(sources_ready=sources_ready, running=containers)
        self.come_back(returning)

    @step(
        edit=st.sampled_from(["cut", "digit", "empty", "foreign", "fixed"]), returning=st.sampled_from(["", "ab", "ab"])
    )
    def checkpoint_is_damaged(self, edit: str, returning: str) -> None:
        """Both restart on a damaged file, the same for both."""
        answer = self.sides.real.programs["kubelet"].ask("checkpoint")
        text = answer["text"] if answer["ok"] else ""
        texts = {
            "cut": text[: len(text) // 2],
            "digit": re.sub(r'("Checksum":)\d', r"\g<1>9", text),
            "empty": "",
            "foreign": '{"Data": [], "Checksum": 1}',
            "fixed": text.replace("dev-0", "dev-9"),
        }
        self.stop()
        self.kubelet("write_checkpoint", text=texts[edit])
        if edit == "fixed" and text:
            self.kubelet("fix_checksum")
        self.start()
        self.come_back(returning)

    @step(seconds=st.sampled_from([100, 299, 301, 301]), are_sources_ready=st.booleans())
    def time_passes(self, seconds: int, are_sources_ready: bool) -> None:
        self.kubelet("set_sources_ready", value=are_sources_ready)
        for resource, endpoint in self.books["endpoints"].items():
            if endpoint["stopped"]:
                self.kubelet("age_endpoint", resource=resource, seconds=seconds)
        self.kubelet("capacity")
        self.compare_books()

    # Looking

    @step(pod=places)
    def somebody_looks(self, pod: int) -> None:
        """Everything that can be asked of the node is, and of one pod and its containers."""
        for cmd in ("capacity", "allocatable_devices", "should_reset", "health"):
            self.kubelet(cmd)
        self.look_at_the_checkpoint()
        for call in ("list", "allocatable"):
            self.kubelet("pod_resources", call=call)
        real, ours = ([file["name"] for file in answer["files"]] for answer in self.sides.ask("kubelet", "ls"))
        assert ours == real
        if self.tells_health:
            self.compare_updates()
        if self.pods:
            self.look_at_a_pod(sorted(self.pods)[pod % len(self.pods)])
        if not self.is_over:
            self.compare_books()

    def compare_updates(self) -> None:
        """Compare the pods that were reported for changes of health.

        Both resources have devices of the same ids. A kubelet that looks for the holder by the id alone takes any pod
        that holds a device of that id, as Go's maps have no order; how many lists there are is no chance.

        Source: devicemanager/pod_devices.go, ``getPodAndContainerForDevice`` (kubernetes v1.34.4).
        """
        real, ours = self.sides.ask("kubelet", "updates", timeout_ms=0, want=0)
        if self.resources["a"] != self.resources["b"] and not FINDS_PODS_BY_RESOURCE.at(version(self.minor)):
            assert len(ours["updates"]) == len(real["updates"]), f"{ours}, and the real one {real}"
        else:
            self.check(real, ours, "kubelet", "updates", {})

    def look_at_the_checkpoint(self) -> None:
        """Compare the files, which are written a little after their content is visible."""
        self.sides.wait_until_alike("kubelet", "checkpoint_entries")
        self.kubelet("checkpoint_entries")

    def look_at_a_pod(self, uid: str) -> None:
        self.kubelet("update_plugin_resources", pod=uid, node_allocatable={STUB: 1})
        if HEALTH_UPDATE_QUEUE.at(version(self.minor)) is not None:
            self.kubelet("allocated_status", pod=uid)
        self.kubelet("pod_resources", call="get", name=uid, namespace="default")
        for container, _ in self.pods[uid]:
            for cmd in ("devices", "get_affinity", "topology_hints"):
                if not self.is_over:
                    self.kubelet(cmd, pod=uid, container=container)
        if not self.is_over:
            self.kubelet("pod_topology_hints", pod=uid)

    @step(pod=places, nodes=st.sampled_from([None, [0], [1], [0, 1]]))
    def affinity_is_set(self, pod: int, nodes: list[int] | None) -> None:
        for uid in self.active_at(pod):
            for container, _ in self.pods[uid]:
                self.kubelet("set_affinity", pod=uid, container=container, nodes=nodes, preferred=True)
            self.allocate("allocate", uid, container)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_same_as_the_real_manager(sides: Sides, oracle_programs: Programs, shard: int) -> None:
    machine = type("Machine", (BothManagers,), {"sides": sides, "minor": oracle_programs.minor})

    run_state_machine_as_test(
        seed(SEED + shard)(machine),
        settings=compared(stateful_step_count=STEPS),
    )

    assert machine.lost_races <= max(5, EXAMPLES // 20)
