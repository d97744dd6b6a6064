"""What a story that joined a cluster takes of what the API server reports: its pods, and others' Events about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.join.backend import JoinSession
from scenarios.backends.join.cluster import STORY, StoryEvents, StoryPods
from scenarios.story.model import Scenario
from scenarios.story.part import Capability
from simkubelet.cluster import WallTime
from simkubelet.model.clock import ManualClock
from simkubelet.model.events import EventRecorded, NodeEvent, PodRemoved
from simkubelet.remote import ServerAccess

NODES = ("node-1",)


def pod(name: str = "p", *, node: str | None = None, is_selected: bool = True, version: int = 1) -> dict[str, Any]:
    """A pod as a watch has it."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "image"}]}
    spec |= {"nodeName": node} if node else {}
    spec |= {"nodeSelector": {STORY: "true"}} if is_selected else {}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def event(name: str = "p", message: str = "no node", host: str = "", uid: str = "e") -> dict[str, Any]:
    """An Event as a watch has it, by default one of a scheduler."""
    return {
        "metadata": {"name": "e", "uid": uid},
        "involvedObject": {"kind": "Pod", "name": name, "uid": f"uid-{name}"},
        "source": {"component": "kubelet", "host": host} if host else {},
        "reportingComponent": "kubelet" if host else "default-scheduler",
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": message,
    }


class Followed:
    """Both followers, and what they have observed."""

    def __init__(self) -> None:
        self.observed: list[NodeEvent] = []
        self.events = StoryEvents(NODES, self.observed.append)
        self.pods = StoryPods(NODES, WallTime(ManualClock()), self.observed.append, self.events.reveal)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.pods.there.values()]


@pytest.fixture
def followed() -> Followed:
    return Followed()


RECORDED = EventRecorded("p", "Warning", "FailedScheduling", "no node", "default-scheduler")


def test_other_pods_of_the_namespace_are_not_of_the_story(followed: Followed) -> None:
    followed.pods.replaced([pod("other", is_selected=False), pod("elsewhere", node="real", is_selected=False), pod()])

    assert followed.names == ["p"]


def test_mirror_of_a_static_pod_is_of_the_story(followed: Followed) -> None:
    followed.pods.changed(pod("static-node-1", node="node-1", is_selected=False))

    assert followed.names == ["static-node-1"]


def test_end_of_a_pod_on_no_node_is_recorded(followed: Followed) -> None:
    followed.pods.changed(pod())
    followed.pods.deleted(pod())

    assert followed.observed == [PodRemoved("p")]


def test_end_of_a_pod_on_a_node_is_left_to_its_kubelet(followed: Followed) -> None:
    followed.pods.changed(pod(node="node-1"))
    followed.pods.replaced([])

    assert (followed.names, followed.observed) == ([], [])


def test_older_answer_changes_nothing(followed: Followed) -> None:
    followed.pods.changed(pod(node="node-1", version=12))
    followed.pods.changed(pod(version=9))

    assert [one.node_name for one in followed.pods.there.values()] == ["node-1"]


def test_late_answer_brings_no_deleted_pod_back(followed: Followed) -> None:
    followed.pods.changed(pod(version=9))
    followed.pods.deleted(pod(version=12))
    followed.pods.changed(pod(version=9))

    assert followed.names == []


def test_event_before_its_pod_is_recorded_with_it(followed: Followed) -> None:
    followed.events.changed(event())
    assert followed.observed == []

    followed.pods.changed(pod())

    assert followed.observed == [RECORDED]


def test_event_about_no_certain_pod_is_none_of_the_story(followed: Followed) -> None:
    followed.pods.changed(pod())
    before = list(followed.observed)

    followed.events.changed({**event(), "involvedObject": {"kind": "Pod", "name": "p"}})

    assert followed.observed == before


def test_event_is_recorded_again_only_with_another_text(followed: Followed) -> None:
    followed.pods.changed(pod())
    for message in ("no node", "no node", "one node"):
        followed.events.changed(event(message=message))

    assert [one.message for one in followed.observed if isinstance(one, EventRecorded)] == ["no node", "one node"]
    (known,) = followed.pods.there.values()
    assert [one.message for one in followed.events.about(known.uid)] == ["one node"]


def test_event_of_the_storys_own_kubelet_is_not_recorded_twice(followed: Followed) -> None:
    followed.pods.changed(pod(node="node-1"))
    followed.events.changed(event(host="node-1"))

    assert followed.observed == []


async def test_settings_of_the_api_server_are_known_to_be_out_of_reach(tmp_path: Path) -> None:
    steps = [{"expect": {"node": "node-1", "kubelet": "running"}}]
    nodes = [{"name": "node-1", "featureGates": {"ResourceHealthStatus": True}}]
    config = {"resource.k8s.io/v1beta1": True}
    document = {"name": "s", "description": "S.", "runtimeConfig": config, "nodes": nodes, "steps": steps}
    story = Scenario.model_validate(document)
    session = JoinSession(tmp_path, ServerAccess("https://127.0.0.1:1"), "1.34.4", None, keep=False)

    assert story.needed - session.world(story, {}).capabilities == {
        Capability.API_FEATURE_GATES,
        Capability.API_VERSIONS,
    }
