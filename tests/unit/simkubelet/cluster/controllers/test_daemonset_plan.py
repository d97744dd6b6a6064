"""What a DaemonSet's controller decides: where pods go, which go first in an update, what the status counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.controllers.daemonset_controller import new_pod
from simkubelet.cluster.controllers.daemonset_plan import (
    HASH_LABEL,
    DaemonSetView,
    Plan,
    by_node,
    manage,
    rolling_update,
    runs_on,
    status,
    target_node,
)
from simkubelet.cluster.objects.objects import WallTime
from simkubelet.model.clock import ManualClock

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WALL_TIME = WallTime(ManualClock(), NOW)
TAINT = {"key": "gpu", "value": "broken", "effect": "NoSchedule"}


def never_waiting(node: str) -> bool:
    return False


def a_set(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "plugin"}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    metadata = {"name": "plugin", "namespace": "default", "uid": "set-uid", "generation": 3}
    return {
        "metadata": metadata,
        "spec": {"selector": {"matchLabels": {"app": "plugin"}}, "template": template, **spec},
    }


def a_node(name: str, *taints: dict[str, str], **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def a_pod(
    name: str, node: str, revision: str = "new", *, phase: str = "Running", ready_since: str = ""
) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready_since}] if ready_since else []
    return {
        "metadata": {"name": name, "creationTimestamp": WALL_TIME.now(), "labels": {HASH_LABEL: revision}},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions},
    }


def ready(name: str, node: str, revision: str = "new") -> dict[str, Any]:
    return a_pod(name, node, revision, ready_since=WALL_TIME.now())


def deleted(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": WALL_TIME.now()}}


def a_view(**spec: Any) -> DaemonSetView:
    return DaemonSetView(a_set(**spec), "new", WALL_TIME)


def rolling(**rolling_update: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": rolling_update}


NODES = [a_node("n1"), a_node("n2"), a_node("n3")]


def test_every_node_without_a_pod_gets_one() -> None:
    assert manage(a_view(), NODES, by_node([ready("a", "n2")]), never_waiting) == Plan(create_on=("n1", "n3"))


def test_node_with_a_taint_gets_none_unless_it_is_tolerated() -> None:
    tainted = [a_node("n1", TAINT)]
    tolerant = a_view()
    tolerant.object["spec"]["template"]["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]

    assert not manage(a_view(), tainted, {}, never_waiting)
    assert manage(tolerant, tainted, {}, never_waiting).create_on == ("n1",)


def test_cordoned_node_gets_one_too() -> None:
    cordoned = a_node("n1", {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})

    assert runs_on(a_set(), cordoned)


def test_pod_stays_on_a_node_that_got_a_taint_against_scheduling_and_goes_with_one_against_running() -> None:
    pods = by_node([ready("a", "n1")])
    against_running = {**TAINT, "effect": "NoExecute"}

    assert not manage(a_view(), [a_node("n1", TAINT)], pods, never_waiting)
    assert manage(a_view(), [a_node("n1", against_running)], pods, never_waiting).delete == ("a",)


def test_pod_goes_from_a_node_that_lost_its_label() -> None:
    view = a_view()
    view.object["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    nodes = [a_node("n1", gpu="yes"), a_node("n2")]

    assert manage(view, nodes, by_node([ready("a", "n2")]), never_waiting) == Plan(("n1",), ("a",))


def test_failed_pod_is_deleted_unless_one_failed_there_a_moment_ago() -> None:
    pods = by_node([a_pod("a", "n1", phase="Failed")])

    assert manage(a_view(), NODES[:1], pods, never_waiting) == Plan((), ("a",), {"a": ("n1", "Failed")})
    assert not manage(a_view(), NODES[:1], pods, lambda node: node == "n1")


def test_pod_that_is_being_deleted_holds_its_node_until_it_is_gone() -> None:
    assert not manage(a_view(), NODES[:1], by_node([deleted(ready("a", "n1"))]), never_waiting)
    ended = deleted(a_pod("a", "n1", phase="Succeeded"))
    assert manage(a_view(), NODES[:1], by_node([ended]), never_waiting).create_on == ("n1",)


def test_all_but_the_oldest_pod_of_a_node_go() -> None:
    assert manage(a_view(), NODES[:1], by_node([ready("b", "n1"), ready("a", "n1")]), never_waiting).delete == ("b",)


def test_pod_that_waits_for_a_node_that_left_is_deleted() -> None:
    pending = new_pod(a_set(), "gone", "new")
    pending["metadata"] |= {"name": "a", "creationTimestamp": WALL_TIME.now()}

    assert manage(a_view(), [], by_node([pending]), never_waiting).delete == ("a",)


def test_update_takes_one_old_pod_at_a_time() -> None:
    view = a_view(updateStrategy=rolling(maxUnavailable=1, maxSurge=0))
    pods = [ready("a", "n1", "old"), ready("b", "n2", "old"), ready("c", "n3", "old")]

    assert rolling_update(view, NODES, by_node(pods)) == Plan(delete=("a",))


def test_update_waits_until_the_new_pod_is_ready() -> None:
    view = a_view(updateStrategy=rolling(maxUnavailable=1, maxSurge=0))
    pods = [a_pod("a2", "n1"), ready("b", "n2", "old"), ready("c", "n3", "old")]

    assert not rolling_update(view, NODES, by_node(pods))


def test_update_waits_until_the_new_pod_has_been_ready_for_its_time() -> None:
    view = a_view(updateStrategy=rolling(maxUnavailable=1, maxSurge=0), minReadySeconds=10)
    long_ago = "2029-12-31T23:59:00Z"
    old = a_pod("b", "n2", "old", ready_since=long_ago)

    assert not rolling_update(view, NODES[:2], by_node([ready("a2", "n1"), old]))
    assert rolling_update(view, NODES[:2], by_node([a_pod("a2", "n1", ready_since=long_ago), old])).delete == ("b",)


def test_old_pods_that_are_not_ready_are_replaced_at_once() -> None:
    view = a_view(updateStrategy=rolling(maxUnavailable=1, maxSurge=0))
    pods = [a_pod("a", "n1", "old"), a_pod("b", "n2", "old"), ready("c", "n3", "old")]

    assert rolling_update(view, NODES, by_node(pods)).delete == ("a", "b")


def test_percentage_counts_the_nodes_and_is_rounded_up() -> None:
    view = a_view(updateStrategy=rolling(maxUnavailable="34%", maxSurge=0))
    pods = [ready(name, name, "old") for name in ("n1", "n2", "n3")]

    assert rolling_update(view, NODES, by_node(pods)).delete == ("n1", "n2")


def test_surge_makes_the_new_pod_first_and_then_takes_the_old_one() -> None:
    view = a_view(updateStrategy=rolling(maxUnavailable=0, maxSurge=1))
    old = [ready(name, name, "old") for name in ("n1", "n2", "n3")]

    assert rolling_update(view, NODES, by_node(old)) == Plan(create_on=("n1",))
    assert not rolling_update(view, NODES, by_node([*old, a_pod("new", "n1")]))
    assert rolling_update(view, NODES, by_node([*old, ready("new", "n1")])) == Plan(("n2",), ("n1",))


def test_surge_keeps_two_pods_on_a_node_only_while_the_new_one_is_not_ready() -> None:
    view = a_view(updateStrategy=rolling(maxUnavailable=0, maxSurge=1))
    old = ready("a", "n1", "old")

    assert not manage(view, NODES[:1], by_node([old, a_pod("b", "n1")]), never_waiting)
    assert manage(view, NODES[:1], by_node([old, ready("b", "n1")]), never_waiting).delete == ("a",)


def test_status_counts_nodes_by_their_oldest_pod() -> None:
    view = a_view()
    pods = [ready("a", "n1"), ready("b", "n2", "old"), a_pod("c", "n3")]
    nodes = [*NODES, a_node("n4", TAINT)]

    assert status(view, nodes, by_node([*pods, ready("d", "n4")])) == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "numberMisscheduled": 1,
        "numberReady": 2,
        "numberAvailable": 2,
        "numberUnavailable": 1,
        "updatedNumberScheduled": 2,
        "observedGeneration": 3,
    }


def test_pod_names_its_node_its_owner_and_its_template() -> None:
    of = a_set()
    of["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "2"}
    pod = new_pod(of, "n1", "abc")

    assert target_node(pod) == "n1"
    assert pod["metadata"]["generateName"] == "plugin-"
    assert pod["metadata"]["labels"] == {
        "app": "plugin",
        "controller-revision-hash": "abc",
        "pod-template-generation": "2",
    }
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "plugin",
            "uid": "set-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert [(one["key"].rpartition("/")[2], one["effect"]) for one in pod["spec"]["tolerations"]] == [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ]
    assert "affinity" not in of["spec"]["template"]["spec"], "the set itself stays as it is"


@given(
    states=st.lists(st.sampled_from(["none", "old", "old-unready", "new", "new-unready"]), min_size=1, max_size=12),
    max_unavailable=st.integers(1, 5),
)
def test_update_never_takes_more_available_pods_than_allowed(states: list[str], max_unavailable: int) -> None:
    view = a_view(updateStrategy=rolling(maxUnavailable=max_unavailable, maxSurge=0))
    nodes = [a_node(f"n{n:02}") for n in range(len(states))]
    pods = [
        (a_pod if state.endswith("unready") else ready)(f"p{n:02}", f"n{n:02}", state.removesuffix("-unready"))
        for n, state in enumerate(states)
        if state != "none"
    ]
    available = {pod["metadata"]["name"] for pod in pods if view.is_available(pod)}

    deleted = set(rolling_update(view, nodes, by_node(pods)).delete)

    assert all(pod["metadata"]["labels"][HASH_LABEL] == "old" for pod in pods if pod["metadata"]["name"] in deleted)
    taken = deleted & available
    assert not taken or len(nodes) - len(available - taken) <= max_unavailable


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_is_reported_with_its_node(phase: str) -> None:
    plan = manage(a_view(), NODES[:1], by_node([a_pod("a", "n1", phase=phase)]), never_waiting)

    assert plan.ended == {"a": ("n1", phase)}
