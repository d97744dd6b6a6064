from __future__ import annotations

import re
from typing import Any

import pytest
from faker import Faker

from simkubelet.cluster.objects.objects import Key
from simkubelet.model.errors import InputError
from simkubelet.model.node import NodeStatus, Taint
from simkubelet.model.pod_status import (
    Condition,
    ConditionType,
    ContainerStatus,
    PodPhase,
    PodStatus,
    Running,
    Terminated,
)
from simkubelet.model.resources import ResourceName

from .conftest import Cluster, manifest

RUNNING = PodStatus(
    PodPhase.RUNNING,
    conditions=(Condition(ConditionType.READY_TO_START_CONTAINERS, True), Condition(ConditionType.READY, True)),
    containers=(ContainerStatus("c", Running(0.0), is_ready=True),),
)
GPU = ResourceName("nvidia.com/gpu")


def stored(cluster: Cluster, name: str, kind: str = "pods") -> dict[str, Any]:
    found = cluster.objects.get(Key(kind, "default" if kind == "pods" else "", name))
    assert found is not None
    return found


def change(cluster: Cluster, kind: str, name: str, **parts: dict[str, Any]) -> None:
    """Write an object as somebody who is no kubelet."""
    old = stored(cluster, name, kind)
    new = {**old, **{part: {**old.get(part, {}), **fields} for part, fields in parts.items()}}
    cluster.objects.replace(Key(kind, "default" if kind == "pods" else "", name), new)


# Pods


def test_created_pod_is_an_object_with_the_defaults_of_the_api(cluster: Cluster, faker: Faker) -> None:
    name = faker.slug()
    pod = cluster.store.create_pod(manifest(name))

    found = stored(cluster, name)
    assert found["metadata"]["uid"] == pod.uid
    assert found["metadata"]["generation"] == 1
    assert found["spec"]["restartPolicy"] == "Always"
    assert found["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert cluster.store.pod(pod.uid) is cluster.store.pod_named(name)
    assert pod.spec["priority"] == 0


def test_created_pod_leaves_the_manifest_alone(cluster: Cluster) -> None:
    given = manifest("a")
    cluster.store.create_pod(given)
    assert given == manifest("a")


def test_name_that_is_taken_is_refused(cluster: Cluster) -> None:
    cluster.store.create_pod(manifest("a"))
    with pytest.raises(InputError, match="pods 'a' already exists"):
        cluster.store.create_pod(manifest("a"))


def test_priority_class_that_is_not_there_is_refused(cluster: Cluster) -> None:
    with pytest.raises(InputError, match="no PriorityClass with name high was found"):
        cluster.store.create_pod(manifest("a", priorityClassName="high"))


def test_pod_of_another_author_is_seen_and_taken(cluster: Cluster) -> None:
    cluster.store.create_pod(manifest("first"))
    body = {**manifest("second"), "status": {"phase": "Pending"}}
    cluster.objects.create(Key("pods", "default", "second"), body)

    pod = cluster.store.pod_named("second")
    assert pod is not None
    assert pod.ordinal == 2
    assert cluster.store.pods[-1] is pod


def test_labels_of_others_outlive_the_kubelets_status(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    change(cluster, "pods", "a", metadata={"labels": {"l": "1"}})
    cluster.store.set_pod_status(pod.uid, RUNNING)

    assert stored(cluster, "a")["metadata"]["labels"] == {"l": "1"}
    assert stored(cluster, "a")["status"]["phase"] == "Running"
    found = cluster.store.pod(pod.uid)
    assert found is not None
    assert found.manifest["metadata"]["labels"] == {"l": "1"}


def test_status_of_another_author_is_read(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    change(cluster, "pods", "a", status={"phase": "Failed", "reason": "Evicted"})
    found = cluster.store.pod(pod.uid)
    assert found is not None
    assert (found.status.phase, found.status.reason) == (PodPhase.FAILED, "Evicted")
    assert cluster.kinds() == ["pod-status"]


def test_fractions_of_seconds_are_kept_while_only_others_parts_are_written(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    status = PodStatus(PodPhase.RUNNING, containers=(ContainerStatus("c", Running(0.25)),))
    cluster.store.set_pod_status(pod.uid, status)
    change(cluster, "pods", "a", metadata={"labels": {"l": "1"}})
    found = cluster.store.pod(pod.uid)
    assert found is not None
    assert found.status == status


def test_status_that_etcd_does_not_take_is_lost_until_it_is_smaller(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    ended = Terminated(1, "Error", 0.0, 1.0, "x" * 4096)
    large, small = (
        PodStatus(PodPhase.RUNNING, containers=tuple(ContainerStatus(f"c{i}", ended) for i in range(count)))
        for count in (400, 300)
    )
    for status, expected in ((large, "Pending"), (small, "Running"), (large, "Running"), (PodStatus(), "Pending")):
        cluster.store.set_pod_status(pod.uid, status)

        assert stored(cluster, "a")["status"]["phase"] == expected
        assert cluster.store.pod(pod.uid).status.phase == expected

    assert [record.getMessage() for record in caplog.records] == [
        'Failed to update status for pod "default/a": etcdserver: request is too large'
    ] * 2


def test_status_that_shows_nothing_new_is_no_write(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    cluster.store.set_pod_status(pod.uid, PodStatus(PodPhase.RUNNING, containers=(ContainerStatus("c", Running(1.0)),)))
    before = cluster.objects.version
    again = PodStatus(PodPhase.RUNNING, containers=(ContainerStatus("c", Running(1.5)),))
    cluster.store.set_pod_status(pod.uid, again)
    assert cluster.objects.version == before
    found = cluster.store.pod(pod.uid)
    assert found is not None
    assert found.status == again


def test_bound_pod_is_scheduled_and_sent_to_its_node(cluster: Cluster) -> None:
    watch = cluster.store.watch_pods("n")
    pod = cluster.store.create_pod(manifest("a"))
    cluster.store.bind(pod.uid, "n")

    assert watch.take() == (pod.uid,)
    assert [each.uid for each in cluster.store.pods_on("n")] == [pod.uid]
    assert stored(cluster, "a")["status"]["conditions"][0]["type"] == "PodScheduled"
    assert cluster.kinds() == ["pod-scheduled"]


def test_binding_by_another_author_counts_as_well(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a"))
    change(cluster, "pods", "a", spec={"nodeName": "n"})
    assert [each.uid for each in cluster.store.pods_on("n")] == [pod.uid]
    assert cluster.kinds() == ["pod-scheduled"]


def test_pod_that_fits_nowhere_gets_a_condition_once(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a"))
    why = Condition(ConditionType.SCHEDULED, False, "Unschedulable", "0/1 nodes are available")
    cluster.store.patch_pod_status(pod.uid, why, "n")
    first = stored(cluster, "a")
    cluster.store.patch_pod_status(pod.uid, why)

    assert stored(cluster, "a") is first
    assert first["status"]["nominatedNodeName"] == "n"
    found = cluster.store.pod(pod.uid)
    assert found is not None
    assert found.status.condition(ConditionType.SCHEDULED) == why
    cluster.store.patch_pod_status(pod.uid, why, "")
    assert "nominatedNodeName" not in stored(cluster, "a")["status"]


def test_announced_end_stays_when_the_kubelet_writes(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    cluster.store.patch_pod_status(pod.uid, Condition(ConditionType.DISRUPTION_TARGET, True, "PreemptionByScheduler"))
    cluster.store.set_pod_status(pod.uid, RUNNING)
    types = [each["type"] for each in stored(cluster, "a")["status"]["conditions"]]
    assert types[0] == "DisruptionTarget"
    before = cluster.objects.version
    cluster.store.set_pod_status(pod.uid, RUNNING)
    assert cluster.objects.version == before


async def test_deletion_sets_a_date_that_can_only_come_nearer(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    cluster.store.delete_pod(pod.uid)
    first = stored(cluster, "a")["metadata"]
    assert (first["deletionGracePeriodSeconds"], first["generation"]) == (30, 2)

    await cluster.clock.advance(5)
    cluster.store.delete_pod(pod.uid, 60)
    assert stored(cluster, "a")["metadata"] == first
    cluster.store.delete_pod(pod.uid, 10)
    shorter = stored(cluster, "a")["metadata"]
    wall = cluster.objects.wall_time
    assert wall.seconds(first["deletionTimestamp"]) - wall.seconds(shorter["deletionTimestamp"]) == 20
    cluster.store.delete_pod(pod.uid, 0)
    assert cluster.store.pod(pod.uid) is None


def test_pod_with_a_finalizer_stays_until_it_is_gone(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    change(cluster, "pods", "a", metadata={"finalizers": ["example.com/mine"]})
    cluster.store.remove_pod(pod.uid)
    assert stored(cluster, "a")["metadata"]["deletionGracePeriodSeconds"] == 0
    assert cluster.kinds() == []


def test_pods_of_one_node_have_different_addresses(cluster: Cluster) -> None:
    cluster.store.register_node("n", NodeStatus())
    for name in ("a", "b"):
        cluster.store.set_pod_status(cluster.store.create_pod(manifest(name, nodeName="n")).uid, RUNNING)
    host = cluster.store.create_pod(manifest("h", nodeName="n", hostNetwork=True))
    cluster.store.set_pod_status(host.uid, RUNNING)

    status = {name: stored(cluster, name)["status"] for name in ("a", "b", "h")}
    assert status["a"]["podIP"] == "127.64.0.2"
    assert status["b"]["podIPs"] == [{"ip": "127.64.0.3"}]
    assert status["h"]["podIP"] == status["h"]["hostIP"] == "127.0.0.1"


def test_pod_without_a_sandbox_has_no_address(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    waiting = PodStatus(conditions=(Condition(ConditionType.READY_TO_START_CONTAINERS, False),))
    cluster.store.set_pod_status(pod.uid, waiting)
    assert "podIP" not in stored(cluster, "a")["status"]


def test_pod_that_another_author_removes_is_gone(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    cluster.objects.remove(Key("pods", "default", "a"))
    assert cluster.store.pod(pod.uid) is None
    assert cluster.store.pod_named("a") is None
    assert cluster.store.pods_on("n") == ()
    assert cluster.kinds() == ["pod-removed"]


# Nodes


def test_capacity_of_another_author_is_seen_and_stays(cluster: Cluster) -> None:
    cluster.store.register_node("n", NodeStatus({GPU: 1}))
    change(cluster, "nodes", "n", status={"capacity": {"example.com/dongle": "4", "nvidia.com/gpu": "1"}})

    status = cluster.store.nodes["n"]
    assert status.capacity == {GPU: 1, "example.com/dongle": 4}
    cluster.store.publish_node("n", NodeStatus(status.capacity, status.capacity))
    assert stored(cluster, "n", "nodes")["status"]["allocatable"]["example.com/dongle"] == "4"
    assert cluster.kinds() == ["node-status"] * 3


def test_cordoned_node_keeps_that_when_its_kubelet_publishes(cluster: Cluster) -> None:
    cluster.store.register_node("n", NodeStatus())
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    change(cluster, "nodes", "n", spec={"unschedulable": True, "taints": [taint]})
    cluster.store.publish_node("n", NodeStatus({GPU: 2}))

    node = cluster.store.node("n")
    assert node is not None
    assert node.is_unschedulable
    assert node.taints == (Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),)
    assert node.status.capacity == {GPU: 2}


def test_change_is_reported_for_labels_and_not_for_heartbeats(cluster: Cluster) -> None:
    cluster.store.register_node("n", NodeStatus())
    seen = cluster.store.change.count
    cluster.store.publish_node("n", NodeStatus())
    assert cluster.store.change.count == seen
    change(cluster, "nodes", "n", metadata={"labels": {"l": "1"}})
    assert cluster.store.change.count == seen + 1


def test_removed_node_does_not_come_back_with_a_heartbeat(cluster: Cluster) -> None:
    cluster.store.register_node("n", NodeStatus())
    cluster.objects.remove(Key("nodes", "", "n"))
    cluster.store.publish_node("n", NodeStatus())
    assert cluster.store.node("n") is None
    assert not cluster.store.nodes


def test_nodes_have_ranges_of_their_own(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.store.register_node(name, NodeStatus())
    ranges = [node.manifest["spec"]["podCIDR"] for node in cluster.store.all_nodes]
    assert ranges == ["127.64.0.0/24", "127.64.1.0/24"]


# Events


def test_repeats_of_an_event_are_counted(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a", nodeName="n"))
    for _ in range(3):
        cluster.store.record(pod, "Normal", "Created", "Created container: c", "kubelet", container="c")

    (event,) = cluster.objects.all_of("events")
    assert event["count"] == 3
    assert event["involvedObject"]["fieldPath"] == "spec.containers{c}"
    assert event["source"] == {"component": "kubelet", "host": "n"}
    assert [each.count for each in cluster.store.events_of(pod.uid)] == [3]
    assert cluster.kinds() == ["event"] * 3


def test_event_of_another_author_is_seen(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("a"))
    about = {"kind": "Pod", "namespace": "default", "name": "a", "uid": pod.uid}
    body = {"involvedObject": about, "reason": "Looked", "type": "Normal", "message": "m"}
    cluster.objects.create(Key("events", "default", "a.1"), body)
    assert [each.reason for each in cluster.store.events_of(pod.uid)] == ["Looked"]
    cluster.objects.remove(Key("events", "default", "a.1"))
    assert cluster.store.events_of(pod.uid) == ()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"tolerations": {"key": "a"}}, "cannot unmarshal object into Go struct field"),
        ({"tolerations": [{"key": "a", "operator": "In"}]}, "spec.tolerations[0].operator: Unsupported value"),
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}, "topologyKey"),
    ],
)
def test_manifest_whose_wishes_cannot_be_read_is_refused(cluster: Cluster, spec: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=re.escape(why)):
        cluster.store.create_pod(manifest("p", **spec))
    assert cluster.objects.all_of("pods") == []


def test_grace_beyond_all_dates_ends_with_the_last_one(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("p", nodeName="n"))
    cluster.store.delete_pod(pod.uid, 2**62)
    (stored,) = cluster.objects.all_of("pods")
    assert stored["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"


@pytest.mark.parametrize(("kubelet", "generation"), [("v1.33.0", None), ("v1.34.4", 1), ("nonsense", 1)])
def test_condition_of_the_scheduler_tells_the_generation(
    cluster: Cluster, kubelet: str, generation: int | None
) -> None:
    cluster.store.register_node("n", NodeStatus(kubelet_version=kubelet))
    pod = cluster.store.create_pod(manifest("p"))

    cluster.store.patch_pod_status(pod.uid, Condition(ConditionType.SCHEDULED, False, "Unschedulable"))

    (condition,) = cluster.store.pods[0].manifest["status"]["conditions"]
    assert condition.get("observedGeneration") == generation
