"""Random orders of a kubelet's statuses, other writers, late watch events, lost answers and outages.

Once the server answers again and the watch has brought everything, the server has what the kubelet wanted last, beside
what others have written.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from simkubelet.cluster.api.decoding.definitions import schema_of
from simkubelet.cluster.api.patching.patches import strategic_merge
from simkubelet.cluster.objects.nodes import KubeletEndpoint
from simkubelet.cluster.objects.objects import WallTime
from simkubelet.model.clock import ManualClock
from simkubelet.model.pod import PodUID
from simkubelet.model.pod_status import Condition, ConditionType, PodPhase, PodStatus
from simkubelet.model.version import version
from simkubelet.remote import ApiClient, ApiError, ServerAccess
from simkubelet.remote.nodes import RemoteNodes
from simkubelet.remote.pods import RemotePods
from simkubelet.remote.references import References

JSON = dict[str, Any]
POD = schema_of("", "v1", "Pod")
STATUSES = [
    PodStatus(phase, conditions=(Condition(ConditionType.READY, is_ready, reason),))
    for phase in (PodPhase.PENDING, PodPhase.RUNNING)
    for is_ready, reason in ((True, ""), (False, "ContainersNotReady"))
]
STEPS = st.one_of(
    st.tuples(st.just("status"), st.integers(0, len(STATUSES) - 1)),
    st.tuples(st.just("gate"), st.sampled_from(["True", "False"])),
    st.tuples(st.just("overwrite"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("deliver"), st.integers(1, 3)),
    st.tuples(st.just("recreate"), st.none()),
    st.tuples(st.just("send"), st.none()),
    st.tuples(st.just("settle"), st.none()),
    st.tuples(st.sampled_from(["list", "leave", "return", "lose"]), st.none()),
)


class FakeServer(ApiClient):
    """One pod, whose writes a watch brings when the test says so."""

    def __init__(self) -> None:
        super().__init__(ServerAccess("http://nowhere"))
        self.version = 0
        self.events: list[Callable[[RemotePods], None]] = []
        self.is_away = self.loses_answer = False
        self.created = 0
        self.pod: JSON = {}
        self.recreate()

    def recreate(self) -> None:
        """Put a later pod of the same name in the place of the pod."""
        if gone := self.pod:
            self.events.append(lambda pods: pods.deleted(gone))
        self.created += 1
        metadata = {"name": "pod", "namespace": "default", "uid": f"uid-{self.created}"}
        spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "image"}]}
        self._write({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def write_status(self, patch: JSON) -> JSON:
        """Apply a patch of any client."""
        after = strategic_merge(copy.deepcopy(self.pod), {"status": copy.deepcopy(patch)}, POD)
        if after != self.pod:
            self._write(after)
        return self.pod

    async def patch(self, path: str, patch: Mapping[str, Any]) -> JSON:
        self._check()
        if patch["metadata"]["uid"] != self.pod["metadata"]["uid"]:
            raise ApiError(422, "Invalid", "metadata.uid: field is immutable")
        after = self.write_status(patch["status"])
        if self.loses_answer:
            self.loses_answer = False
            raise ApiError(0, "Unreachable", "connection reset")
        return after

    async def find(self, path: str) -> JSON | None:
        self._check()
        return self.pod

    def _check(self) -> None:
        if self.is_away:
            raise ApiError(0, "Unreachable", "connection refused")

    def _write(self, pod: JSON) -> None:
        self.version += 1
        written = {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(self.version)}}
        self.pod = written
        self.events.append(lambda pods: pods.changed(written))


class NoNodes(RemoteNodes):
    """No node is registered."""

    def __init__(self) -> None:
        pass

    def node(self, name: str) -> None:
        return None


class NoReferences(References):
    """Pods that refer to nothing."""

    def __init__(self) -> None:
        pass

    def hold(self, uid: PodUID, pod: Mapping[str, Any], on_read: Callable[[], None]) -> None:
        on_read()

    def release(self, uid: PodUID) -> None:
        pass


def do(step: tuple[str, Any], server: FakeServer, pods: RemotePods) -> None:
    match step:
        case "status", index:
            for pod in pods.all():
                pods.set_status(pod.uid, STATUSES[index])
        case "gate", status:
            server.write_status({"conditions": [{"type": "example.com/gate", "status": status}]})
        case "overwrite", message:
            server.write_status({"message": message})
        case "deliver", count:
            for event in server.events[:count]:
                event(pods)
            del server.events[:count]
        case "settle", _:
            do(("deliver", len(server.events)), server, pods)
        case "list", _:
            server.events.clear()
            pods.replaced([server.pod])
        case "leave" | "return" as word, _:
            server.is_away = word == "leave"
        case "lose", _:
            server.loses_answer = True
        case "recreate", _:
            server.recreate()


async def play(steps: list[tuple[str, Any]]) -> tuple[FakeServer, RemotePods, list[str]]:
    """Play steps, then let everything come to rest."""
    server, clock, complaints = FakeServer(), ManualClock(), list[str]()
    async with asyncio.TaskGroup() as tasks:
        pods = RemotePods(
            server,
            {"node-1": version("1.34")},
            {"node-1": KubeletEndpoint()},
            NoNodes(),
            NoReferences(),
            WallTime(clock),
            clock,
            lambda event: None,
            tasks,
            complaints.append,
        )
        for step in [("settle", None), *steps]:
            do(step, server, pods)
            if step[0] in ("send", "settle"):
                await clock.advance(20)
        server.is_away = False
        for _ in range(10):
            do(("deliver", len(server.events)), server, pods)
            await clock.advance(60)
        async with asyncio.timeout(0):
            await pods.until_sent()
    return server, pods, complaints


@settings(max_examples=300)
@given(st.lists(STEPS, min_size=4, max_size=30))
@example([("status", 1), ("settle", None), ("overwrite", "a"), ("settle", None), ("overwrite", "b")])
def test_server_gets_what_the_kubelet_wanted_last(steps: list[tuple[str, Any]]) -> None:
    server, pods, complaints = asyncio.run(play(steps))

    (pod,) = pods.all()
    status, conditions = (
        server.pod["status"],
        {each["type"]: each for each in server.pod["status"].get("conditions", ())},
    )
    assert complaints == []
    assert server.events == []
    assert pod.uid == server.pod["metadata"]["uid"]
    assert (status["phase"], status.get("message", "")) == (pod.status.phase.value, pod.status.message)
    for condition in pod.status.conditions:
        assert conditions[condition.type.value]["status"] == str(condition.is_true)
        assert conditions[condition.type.value].get("reason", "") == condition.reason
    last = next((text for word, text in reversed(steps) if word in ("gate", "recreate")), None)
    assert conditions.get("example.com/gate", {}).get("status") == last
