"""Pods that are tried in a thread, in a cluster that goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simkubelet.cluster.cel.run import Effort, Run
from simkubelet.cluster.cel.values import ExhaustedError
from simkubelet.cluster.objects.device_selector import COST_LIMIT, DeviceSelector
from simkubelet.cluster.objects.objects import Key, Verb, Written
from simkubelet.cluster.scheduler.cycle import SchedulingCycles
from simkubelet.cluster.scheduler.scheduler import Scheduler
from simkubelet.model.version import version
from tests.support.device_claims import claim_for, device, request, slice_of
from tests.support.patience import LIMIT_S
from tests.support.scheduled_cluster import CLAIMS, SLICES, USES_CLAIM, DeviceCluster, ScheduledCluster

Write = Callable[[], object]
LIST = f"[{','.join('1' * 10)}]"
COSTLY = f"{LIST}.all(a, {LIST}.all(b, a + b > 0))"


@contextmanager
def held_try() -> Iterator[tuple[threading.Event, threading.Event]]:
    """Set when a try has begun; set to let it end."""
    begun, goes_on = threading.Event(), threading.Event()
    original = SchedulingCycles.try_pod

    def try_pod(*args: Any) -> Any:
        begun.set()
        assert goes_on.wait(LIMIT_S)
        return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SchedulingCycles, "try_pod", try_pod)
        yield begun, goes_on


async def try_during(cluster: ScheduledCluster, *writes: Write) -> None:
    """Try one pod, and write something while that goes on."""
    with held_try() as (begun, goes_on):
        trying = asyncio.create_task(cluster.scheduler.try_next_in_thread())
        await asyncio.to_thread(begun.wait, LIMIT_S)
        for write in writes:
            write()
        goes_on.set()
        await trying


async def test_pod_that_goes_meanwhile_is_not_bound() -> None:
    cluster = ScheduledCluster()
    cluster.node("node-1")
    cluster.pod("pod")

    await try_during(cluster, partial(cluster.remove, "pods", "pod"))

    assert cluster.failures("pod") == ['running Bind plugin "DefaultBinder": pods "pod" not found']
    assert not cluster.objects.all_of("pods")
    assert not cluster.scheduler.queue.active.pods


async def test_pod_that_another_binds_meanwhile_stays_there() -> None:
    cluster = ScheduledCluster()
    cluster.node("node-1")
    cluster.node("node-2", 0)
    cluster.pod("pod")

    await try_during(cluster, partial(cluster.change_pod, "pod", nodeName="node-2"))

    assert cluster.node_of("pod") == "node-2"
    assert 'already assigned to node "node-2"' in cluster.failures("pod")[0]
    assert cluster.scheduler.queue.is_idle


async def test_refused_pod_is_tried_again_for_what_came_meanwhile() -> None:
    cluster = ScheduledCluster()
    cluster.node("node-1", 0)
    cluster.pod("pod")

    await try_during(cluster, partial(cluster.node, "node-2"))
    cluster.advance(2)

    assert len(cluster.failures("pod")) == 1
    assert cluster.node_of("pod") == "node-2"


async def test_refused_pod_that_goes_meanwhile_is_forgotten() -> None:
    cluster = ScheduledCluster()
    cluster.node("node-1", 0)
    cluster.pod("pod")

    await try_during(cluster, partial(cluster.remove, "pods", "pod"))
    cluster.advance(400)

    assert cluster.failures("pod") == []
    assert not cluster.scheduler.queue.unschedulable.pods


async def test_try_sees_the_cluster_as_it_began() -> None:
    cluster = ScheduledCluster()
    cluster.node("node-1")
    cluster.pod("pod")

    await try_during(cluster, partial(cluster.remove, "nodes", "node-1"), partial(cluster.node, "node-2"))

    assert cluster.node_of("pod") == "node-1"


async def test_claim_that_is_allocated_meanwhile_is_not_overwritten() -> None:
    cluster = DeviceCluster()
    cluster.write(CLAIMS, claim_for(request()))
    cluster.claim_pod("pod")
    allocation = {"devices": {"results": [{"request": "req", "driver": "other", "pool": "p", "device": "d"}]}}

    await try_during(cluster, lambda: cluster.write(CLAIMS, {**cluster.claim(), "status": {"allocation": allocation}}))

    text = "claim default/claim got allocated elsewhere in the meantime"
    assert cluster.failures("pod") == [f'running PreBind plugin "DynamicResources": {text}']
    assert cluster.claim()["status"] == {"allocation": allocation}


async def test_pod_that_changes_meanwhile_keeps_the_change_and_leaves_the_queue() -> None:
    """The scheduler of 1.36 writes the node that it has chosen into the pod before it binds the pod."""
    cluster = DeviceCluster("1.36", devices=0)
    cluster.write(SLICES, slice_of([{"name": "gpu-0", "bindingConditions": ["Ready"], "bindingFailureConditions": []}]))
    cluster.write(CLAIMS, claim_for(request()))
    cluster.claim_pod("pod")

    await try_during(cluster, partial(cluster.change_pod, "pod", activeDeadlineSeconds=7))

    pod = cluster.object("pods", "pod")
    assert pod["spec"]["activeDeadlineSeconds"] == 7
    assert pod["status"]["nominatedNodeName"] == "node-1"
    assert cluster.scheduler.queue.is_idle


async def test_claim_that_goes_meanwhile_is_missed() -> None:
    cluster = DeviceCluster()
    cluster.write(CLAIMS, claim_for(request()))
    cluster.claim_pod("pod")

    await try_during(cluster, lambda: cluster.objects.remove(Key(CLAIMS, "default", "claim")))

    text = 'add finalizer to claim default/claim: resourceclaims.resource.k8s.io "claim" not found'
    assert cluster.failures("pod") == [f'running PreBind plugin "DynamicResources": {text}']


async def test_claims_reserved_before_one_that_went_are_given_back() -> None:
    cluster = DeviceCluster(devices=2)
    cluster.write(CLAIMS, claim_for(request()))
    cluster.write(CLAIMS, claim_for(request(), name="other"))
    entries = [{"name": "a", "resourceClaimName": "claim"}, {"name": "b", "resourceClaimName": "other"}]
    cluster.claim_pod("pod", resourceClaims=entries)

    await try_during(cluster, lambda: cluster.objects.remove(Key(CLAIMS, "default", "other")))

    assert "reservedFor" not in cluster.claim()["status"]
    assert cluster.node_of("pod") is None


async def test_scheduler_that_ends_ends_the_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends at a step of it, which is asked for here in the middle."""
    cluster = DeviceCluster()
    cluster.write(CLAIMS, claim_for(request("req", COSTLY)))
    cluster.claim_pod("pod")
    begun, ended = threading.Event(), threading.Event()
    original, costs = DeviceSelector.matches, []

    def matches(selector: DeviceSelector, view: Any, effort: Any) -> bool:
        def step(run: Run) -> Any:
            begun.set()
            while not run.limit < 0:
                pass
            try:
                return selector.step(run)
            finally:
                costs.append(run.cost)
                ended.set()

        return original(DeviceSelector(0, step), view, effort)

    monkeypatch.setattr(DeviceSelector, "matches", matches)
    trying = asyncio.create_task(cluster.scheduler.try_next_in_thread())
    await asyncio.to_thread(begun.wait, LIMIT_S)

    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying

    assert ended.is_set()
    assert len(costs) == 1
    assert costs[0] < 100


def test_evaluations_of_a_try_share_what_it_may_cost() -> None:
    effort, limits = Effort(COST_LIMIT * 2), []

    def evaluate(cost: int) -> bool:
        def step(run: Run) -> bool:
            limits.append(run.limit)
            run.charge(cost)
            return True

        return bool(effort.evaluate(step, {}, COST_LIMIT))

    assert evaluate(COST_LIMIT)
    assert evaluate(COST_LIMIT - 10)
    with pytest.raises(ExhaustedError):
        evaluate(11)
    assert limits == [COST_LIMIT, COST_LIMIT, 10]


def test_nodes_refuse_a_pod_whose_try_has_cost_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simkubelet.cluster.scheduler.dynamic_resources.allocator._MOST_COST", 2_000)
    cluster = DeviceCluster(devices=0)
    for name in ("node-1", "node-2", "node-3"):
        cluster.node(name)
        cluster.write(SLICES, slice_of([device(f"gpu-{n}") for n in range(4)], name, name))
    cluster.write(CLAIMS, claim_for(request("req", f"{COSTLY} && device.driver == 'x'")))
    cluster.claim_pod("pod")
    costs: list[int] = []
    original = Run.charge

    def charge(run: Run, cost: int) -> None:
        costs.append(cost)
        original(run, cost)

    monkeypatch.setattr(Run, "charge", charge)

    cluster.try_all()

    assert cluster.failures("pod")[0].startswith("0/3 nodes are available: 3 timed out trying to allocate devices.")
    assert 1_000 < sum(costs) < 2_100


def test_first_node_that_costs_too_much_ends_the_try_from_1_36_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simkubelet.cluster.scheduler.dynamic_resources.allocator._MOST_COST", 2_000)
    cluster = DeviceCluster("1.36", devices=20)
    cluster.write(CLAIMS, claim_for(request("req", f"{COSTLY} && device.driver == 'x'")))

    cluster.claim_pod("pod")
    cluster.try_all()

    text = "node node-1: timed out trying to allocate devices"
    assert cluster.failures("pod") == [f'running "DynamicResources" filter plugin: {text}']
    (condition,) = cluster.object("pods", "pod")["status"]["conditions"]
    assert condition["reason"] == "SchedulerError"


def test_selector_is_asked_about_a_device_once_in_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = DeviceSelector.matches

    def matches(selector: DeviceSelector, view: Any, effort: Any) -> bool:
        asked.append("")
        return original(selector, view, effort)

    monkeypatch.setattr(DeviceSelector, "matches", matches)
    cluster = DeviceCluster(devices=20)
    selectors = [f"device.driver != '{n}'" for n in range(70)]
    cluster.write(CLAIMS, claim_for(request("a", *selectors, count=2), request("b", "device.driver == 'x'")))
    cluster.claim_pod("pod")

    cluster.try_all()

    # The selector of the class is asked for both requests.
    assert len(asked) <= 20 * (71 + 2)


NAMES = st.sampled_from(["a", "b", "c"])
WRITES = st.tuples(
    st.sampled_from(["node", "pod", "bind", "delete pod", "delete node", "label", "claim pod", "devices", "claim"]),
    NAMES,
    st.integers(0, 2),
)


def write(cluster: DeviceCluster, what: str, name: str, amount: int) -> None:
    """Do one thing, where it can be done."""
    pods = {pod["metadata"]["name"]: pod for pod in cluster.objects.all_of("pods")}
    node = Key("nodes", "", name)
    match what:
        case "node":
            cluster.node(name, amount)
        case "delete node" if cluster.objects.get(node) is not None:
            cluster.objects.remove(node)
        case "pod" if name not in pods:
            cluster.pod(name, amount)
        case "claim pod" if name not in pods:
            cluster.claim_pod(name, **USES_CLAIM)
        case "label" if name in pods:
            cluster.change_pod(name, priority=amount)
        case "bind" if name in pods and "nodeName" not in pods[name]["spec"]:
            cluster.change_pod(name, nodeName="a")
        case "delete pod" if name in pods:
            cluster.remove("pods", name)
        case "devices":
            cluster.write(SLICES, slice_of([device(f"gpu-{n}") for n in range(amount)], name, name))
        case "claim" if cluster.objects.get(Key(CLAIMS, "default", "claim")) is None:
            cluster.write(CLAIMS, claim_for(request()))
        case "claim":
            cluster.objects.remove(Key(CLAIMS, "default", "claim"))


def view(scheduler: Scheduler) -> object:
    """What a scheduler knows of its cluster."""
    state, inventory = scheduler._state, scheduler._inventory
    nodes = {name: (set(node.pods), +node.requested, +node.host_ports) for name, node in state.nodes.items()}
    slices = {name: {each.name for each in inventory.slices.for_node(name)} for name in ("a", "b", "c")}
    return nodes, slices, inventory.allocated


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.lists(WRITES, max_size=4), st.lists(WRITES, max_size=4)), max_size=5))
async def test_view_is_that_of_a_new_scheduler_whatever_is_written_during_tries(rounds: list[Any]) -> None:
    cluster = DeviceCluster(devices=0)
    bound: dict[str, str] = {}

    def follow(written: Written) -> None:
        name, node = written.key.name, written.object["spec"].get("nodeName")
        if written.verb is Verb.DELETED:
            bound.pop(name, None)
        elif node is not None:
            assert bound.setdefault(name, node) == node

    cluster.objects.subscribe("pods", follow)
    for before, meanwhile in rounds:
        for each in before:
            write(cluster, *each)
        if cluster.scheduler.queue.active.pods:
            await try_during(cluster, *(partial(write, cluster, *each) for each in meanwhile))
        cluster.clock.ms += 20_000
        cluster.scheduler.flush()

    waiting = [place.pods for place in cluster.scheduler.queue._places]
    unbound = {pod["metadata"]["uid"] for pod in cluster.objects.all_of("pods") if "nodeName" not in pod["spec"]}
    assert view(cluster.scheduler) == view(Scheduler(cluster.store, cluster.clock, version("1.34")))
    assert sorted(uid for pods in waiting for uid in pods) == sorted(unbound)
