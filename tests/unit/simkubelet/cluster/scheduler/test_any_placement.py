"""Whatever pods and nodes say about where pods go, they are refused or the scheduler decides."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simkubelet.cluster import Objects, Store, WallTime
from simkubelet.cluster.api.decoding.decoding import Decoder
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.controllers.daemonset_controller import new_pod
from simkubelet.cluster.controllers.daemonset_plan import continues_on, runs_on, target_node
from simkubelet.cluster.controllers.node_lifecycle import TaintEviction
from simkubelet.cluster.objects.objects import JSON, Key
from simkubelet.cluster.scheduler.scheduler import Scheduler
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.clock import ManualClock
from simkubelet.model.errors import InputError
from simkubelet.model.node import NodeStatus
from simkubelet.model.pod_status import PodPhase, PodStatus
from simkubelet.model.version import DEFAULT, version
from tests.support.any_object import objects
from tests.support.placement import affinities, container_ports, pod_specs, spread_constraints, taints, tolerations
from tests.support.scheduled_cluster import ScheduledCluster

NODES, PODS, DAEMON_SETS = map(kind_named, ("nodes", "pods", "daemonsets.apps"))
PLAIN: JSON = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
OF_PODS = {
    "affinity": affinities(),
    "containers": st.lists(container_ports(), max_size=1).map(lambda ports: [{**PLAIN, "ports": ports}]),
    "tolerations": st.lists(tolerations(), max_size=2),
    "topologySpreadConstraints": st.lists(spread_constraints(), max_size=1),
}
OF_NODES = {"taints": st.lists(taints(), max_size=2), "unschedulable": st.booleans()}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "1", "Exists", "In"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["key", "values"]), inner, max_size=2),
    max_leaves=4,
)
PARTS = ["affinity", "tolerations", "nodeSelector", "schedulingGates", "topologySpreadConstraints", "containers"]
slow = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


class Cluster:
    """A live cluster's parts that read pods and nodes, without its kubelets."""

    def __init__(self) -> None:
        clock = ManualClock()
        stored = Objects(WallTime(clock))
        stored.create(Key("namespaces", "", "default"), {"metadata": {}})
        stored.create(Key("serviceaccounts", "default", "default"), {"metadata": {}})
        self.objects = stored
        self.store = Store(stored, lambda event: None)
        self.registry = Registry(stored, all_strategies(stored))
        self.scheduler = Scheduler(self.store, clock, version(DEFAULT))
        self.eviction = TaintEviction(self.store, clock)

    def put(self, kind: Any, body: JSON, name: str, *, subresource: str = "") -> bool:
        """Write an object, whether it is there or not; whether it was not refused."""
        namespace = "default" if kind.namespaced else ""
        try:
            body = Decoder.of(kind, "", []).completed({**body, "metadata": {"name": name}})
            if self.objects.get(kind.key(namespace, name)) is None:
                self.registry.create(kind, namespace, body)
            else:
                change = {name: body[name] for name in ("spec", "status") if name in body}
                self.registry.update(kind, namespace, name, lambda old: {**old, **change}, subresource=subresource)
        except StatusError as refused:
            is_users_fault = 400 <= refused.code < 500
            assert is_users_fault, refused  # noqa: PT017 - other codes are the server's own faults
            return False
        return True

    def try_all(self) -> None:
        while self.scheduler.try_next() is not None:
            pass


@slow
@given(
    nodes=st.lists(objects("Node", "", OF_NODES), min_size=2, max_size=4),
    pods=st.lists(objects("Pod", "", OF_PODS), min_size=1, max_size=5),
    daemon_set=objects("Pod", "", OF_PODS),
)
async def test_any_object_is_refused_or_decided_about(nodes: list[JSON], pods: list[JSON], daemon_set: JSON) -> None:
    cluster = Cluster()
    eviction = asyncio.create_task(cluster.eviction.run())
    for place, node in enumerate(nodes):
        name = f"n{place % 2}"
        cluster.put(NODES, node, name)
    for place, pod in enumerate(pods):
        name = f"p{place % 3}"
        cluster.put(PODS, pod, name)
        cluster.try_all()
    selector = {"matchLabels": {"app": "x"}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": daemon_set["spec"]}
    if cluster.put(DAEMON_SETS, {"spec": {"selector": selector, "template": template}}, "d"):
        (stored,) = cluster.objects.all_of("daemonsets.apps")
        for node in cluster.objects.all_of("nodes"):
            runs_on(stored, node), continues_on(stored, node)
            made = new_pod(stored, node["metadata"]["name"], "hash")
            assert target_node(made) in (node["metadata"]["name"], made["spec"].get("nodeName"))
            cluster.put(PODS, made, f"d-{node['metadata']['name']}")
    cluster.try_all()
    await asyncio.sleep(0)
    assert not eviction.done(), eviction
    eviction.cancel()


@slow
@given(node=objects("Node", "", {}), pod=objects("Pod", "", {}))
def test_any_status_is_refused_or_read(node: JSON, pod: JSON) -> None:
    cluster = Cluster()
    cluster.store.register_node("n", NodeStatus())
    mine = cluster.store.create_pod({"metadata": {"name": "p"}, "spec": {"containers": [PLAIN]}})
    cluster.put(NODES, {"status": node["status"]}, "n", subresource="status")
    cluster.put(PODS, {"status": pod["status"]}, "p", subresource="status")
    cluster.try_all()
    cluster.store.publish_node("n", NodeStatus())
    cluster.store.set_pod_status(mine.uid, PodStatus(PodPhase.RUNNING))
    cluster.store.delete_pod(mine.uid)
    cluster.try_all()


@slow
@given(specs=st.lists(pod_specs(), min_size=1, max_size=3), tainted=st.lists(taints(), max_size=2))
def test_scheduler_decides_about_what_nobody_has_checked(specs: list[JSON], tainted: list[JSON]) -> None:
    cluster = ScheduledCluster()
    cluster.node("n", labels={"zone": "1"}, taints=tainted)
    cluster.node("m", labels={"zone": "x"})
    for place, spec in enumerate(specs):
        cluster.pod(f"p{place}", **spec)
        cluster.node("m", labels={"zone": str(place)})
        cluster.try_all()
        cluster.advance(30)


@slow
@given(part=st.sampled_from(PARTS), value=ANYTHING)
def test_manifest_is_read_or_refused(part: str, value: Any) -> None:
    cluster = Cluster()
    spec = {"containers": [{"name": "c", "image": "x"}], part: value}
    with suppress(InputError):
        cluster.store.create_pod({"metadata": {"name": "p"}, "spec": spec})
    for name in ("n", "m"):
        cluster.put(NODES, {}, name)
    cluster.try_all()
