from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.objects.objects import Written
from simkubelet.model.node import NodeStatus
from simkubelet.model.pod import PodUID
from simkubelet.model.pod_status import Condition, ConditionType, PodPhase, PodStatus
from simkubelet.remote import ApiClient
from tests.support.patience import until
from tests.support.remote import NODE, Joined, Server, pod_manifest

PODS = "/api/v1/namespaces/default/pods"
RUNNING = PodStatus(PodPhase.RUNNING, conditions=(Condition(ConditionType.READY, True),))


async def shown(joined: Joined, name: str = "pod", **spec: Any) -> PodUID:
    """Create a pod that is bound, and wait until its kubelet sees it."""
    await joined.create("pods", pod_manifest(name, **spec))
    await until(lambda: joined.cluster.pod_named(name) is not None)
    pod = joined.cluster.pod_named(name)
    assert pod is not None
    return pod.uid


async def test_pods_of_other_nodes_are_not_seen(joined: Joined) -> None:
    await joined.create("pods", pod_manifest("other", node="node-2"))
    await shown(joined, "own")

    assert [pod.name for pod in joined.cluster.pods] == ["own"]


async def test_several_nodes_share_one_watch(server: Server) -> None:
    async with server.joined(NODE, "node-2") as joined:
        await joined.create("pods", pod_manifest("third", node="node-3"))
        await joined.create("pods", pod_manifest("second", node="node-2"))
        await shown(joined, "first")

        assert [pod.name for pod in joined.cluster.pods_on("node-2")] == ["second"]
        assert len(joined.cluster.pods) == 2


async def test_status_of_another_condition_stays(joined: Joined) -> None:
    uid = await shown(joined)
    gate = {"type": "example.com/gate", "status": "True"}
    await joined.client.patch(f"{PODS}/pod/status", {"status": {"conditions": [gate]}})

    joined.cluster.set_pod_status(uid, RUNNING)
    await joined.cluster.until_sent()

    conditions = {one["type"]: one["status"] for one in joined.server.pod("pod")["status"]["conditions"]}
    assert conditions == {"example.com/gate": "True", "Ready": "True"}


async def test_what_another_has_overwritten_is_sent_again(joined: Joined) -> None:
    uid = await shown(joined)
    joined.cluster.set_pod_status(uid, RUNNING)
    await joined.cluster.until_sent()

    await joined.client.patch(f"{PODS}/pod/status", {"status": {"message": "from elsewhere"}})
    await joined.server.until(lambda: "message" not in joined.server.pod("pod")["status"])


async def test_end_that_another_has_declared_stays(joined: Joined) -> None:
    uid = await shown(joined)
    joined.cluster.set_pod_status(uid, RUNNING)
    await joined.cluster.until_sent()

    await joined.client.patch(f"{PODS}/pod/status", {"status": {"phase": "Failed", "reason": "Evicted"}})
    await until(lambda: joined.cluster.pod(uid).status.phase is PodPhase.FAILED)  # type: ignore[union-attr]
    await joined.cluster.until_sent()

    assert joined.server.phase("pod") == "Failed"


async def test_equal_status_is_not_sent_again(joined: Joined) -> None:
    uid = await shown(joined)
    joined.cluster.set_pod_status(uid, RUNNING)
    await joined.cluster.until_sent()
    version = joined.server.pod("pod")["metadata"]["resourceVersion"]

    joined.cluster.set_pod_status(uid, RUNNING)
    await joined.cluster.until_sent()

    assert joined.server.pod("pod")["metadata"]["resourceVersion"] == version


async def test_status_is_not_written_to_a_later_pod_of_the_name(joined: Joined) -> None:
    uid = await shown(joined)
    # The watch has not brought this yet when the status is sent.
    joined.server.store.remove_pod(uid)
    later = joined.server.store.create_pod(pod_manifest())

    joined.cluster.set_pod_status(uid, RUNNING)
    await joined.cluster.until_sent()

    assert joined.server.pod("pod")["metadata"]["uid"] == later.uid
    assert joined.server.phase("pod") == "Pending"


async def test_ended_pod_is_removed_after_its_last_status(joined: Joined) -> None:
    uid = await shown(joined)
    phases: list[tuple[str, str]] = []

    def note(written: Written) -> None:
        phases.append((written.verb.value, written.object["status"]["phase"]))

    joined.server.objects.subscribe("pods", note)

    joined.cluster.set_pod_status(uid, PodStatus(PodPhase.SUCCEEDED))
    joined.cluster.remove_pod(uid)
    assert joined.cluster.pod(uid) is None
    await joined.cluster.until_sent()

    assert phases[0] == ("MODIFIED", "Succeeded")
    assert phases[-1] == ("DELETED", "Succeeded")


async def test_pod_is_shown_with_what_it_refers_to(joined: Joined) -> None:
    await joined.create("configmaps", {"metadata": {"name": "settings"}, "data": {"key": "value"}})
    container = {"name": "main", "image": "image", "envFrom": [{"configMapRef": {"name": "settings"}}]}
    await shown(joined, containers=[container])

    found = joined.cluster.read_object("configmaps", "default", "settings")
    assert found is not None
    assert found["data"] == {"key": "value"}


async def test_change_of_a_secret_is_followed(joined: Joined) -> None:
    await joined.create("secrets", {"metadata": {"name": "token"}, "data": {}})
    volume = {"name": "v", "secret": {"secretName": "token"}}
    await shown(joined, volumes=[volume])

    await joined.client.patch("/api/v1/namespaces/default/secrets/token", {"data": {"key": "dg=="}})

    def data() -> object:
        return (joined.cluster.read_object("secrets", "default", "token") or {}).get("data")

    await until(lambda: data() == {"key": "dg=="})


async def test_missing_object_keeps_no_pod_away(joined: Joined) -> None:
    volume = {"name": "v", "configMap": {"name": "missing"}}
    await shown(joined, volumes=[volume])

    assert joined.cluster.read_object("configmaps", "default", "missing") is None


async def test_mirror_pod_is_created_once_the_one_before_is_gone(joined: Joined) -> None:
    joined.cluster.register_node(NODE, NodeStatus())
    uid = await shown(joined)

    joined.cluster.remove_pod(uid)
    joined.cluster.create_pod(pod_manifest())
    await joined.cluster.until_sent()

    assert joined.server.pod("pod")["metadata"]["uid"] != uid


async def test_mirror_pod_that_is_asked_for_twice_is_created_once(joined: Joined) -> None:
    joined.cluster.register_node(NODE, NodeStatus())
    joined.cluster.create_pod(pod_manifest())
    await until(lambda: joined.cluster.pods)

    joined.cluster.create_pod(pod_manifest())
    await joined.cluster.until_sent()

    assert len(joined.server.objects.all_of("pods")) == 1


async def test_odd_object_of_a_pod_leaves_nothing_behind(joined: Joined) -> None:
    await shown(joined)
    stored = joined.server.pod("pod")
    metadata = {**stored["metadata"], "name": "other", "uid": "other"}
    other = {**stored, "metadata": metadata}
    volumes = [{"name": "a", "configMap": {"name": name}} for name in (1, "a")]
    pods = joined.cluster._pods

    with pytest.raises(TypeError):
        pods.changed({**other, "spec": {**stored["spec"], "volumes": volumes}})
    assert pods.changed({**other, "spec": {"nodeName": NODE, "containers": 5}}) is False
    assert pods.changed(other) is True
    assert pods.changed({**other, "spec": {"nodeName": NODE, "containers": 5}}) is False

    await until(lambda: joined.cluster.pod_named("other") is not None)
    pods.deleted(other)


@pytest.mark.parametrize(
    "answer", [{}, {"kind": "Status"}, {"metadata": {"name": "pod", "uid": "pod"}, "spec": 5}], ids=str
)
async def test_status_is_sent_again_after_an_answer_that_is_no_pod(
    joined: Joined, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    uid = await shown(joined)
    answers, call = [answer], ApiClient.call

    async def odd_call(self: ApiClient, method: str, *args: Any, **keys: Any) -> Any:
        if method == "PATCH" and answers:
            return answers.pop()
        return await call(self, method, *args, **keys)

    monkeypatch.setattr(ApiClient, "call", odd_call)
    joined.cluster.set_pod_status(uid, RUNNING)
    await joined.cluster.until_sent()

    assert joined.server.phase("pod") == "Running"
