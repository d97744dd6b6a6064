"""Which nodes of a cluster take part in a story, and that all are there again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.kind.api import ClusterApi
from scenarios.backends.kind.backend import KindBackend
from scenarios.backends.kind.image import PluginImage
from scenarios.backends.kind.members import KindMembers
from scenarios.backends.kind.node import KindNode
from scenarios.play.job import Job, Options
from scenarios.play.on_cluster import nodes_needed
from scenarios.story.document import load
from scenarios.story.model import Scenario
from scenarios.story.part import Capability
from simkubelet.model.errors import HostError

_IMAGE = PluginImage("simkubelet/plugin:1", "/usr/bin/python3", "/site")
_TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


class Cluster(ClusterApi):
    """Nodes of which each is there while its kubelet runs."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(None)
        self.nodes = {name: Machine(name, self) for name in names}
        self.there = dict.fromkeys(names, True)
        self.taints: dict[str, list[dict[str, str]] | None] = {names[0]: [_TAINT]}

    async def call(self, method: str, url: str, body: object = None, **options: Any) -> dict[str, Any]:
        name = url.removeprefix("nodes/")
        match method:
            case "DELETE":
                assert not self.nodes[name].runs, "a kubelet that runs makes its node anew"
                self.there[name] = False
            case "PATCH":
                assert isinstance(body, dict)
                self.taints[name] = body["spec"]["taints"]
        if not self.there[name]:
            return {}
        conditions = [{"type": "Ready", "status": "True"}]
        return {"spec": {"taints": self.taints.get(name) or []}, "status": {"conditions": conditions}}


class Machine(KindNode):
    """A node that executes commands to systemd."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        super().__init__(name, name, _IMAGE, lambda told: None)
        self.cluster = cluster
        self.runs = True
        self.is_dead = False
        self.left = ""
        self.told: list[str] = []

    async def systemctl(self, verb: str) -> None:
        if self.is_dead:
            raise HostError(f"{self.name} is not running")
        self.told.append(verb)
        self.runs = verb != "stop"
        self.cluster.there[self.name] |= self.runs

    async def release(self) -> None:
        await self.systemctl("start")

    async def run(self, *argv: str, given: bytes | None = None, within_s: float = 60.0) -> str:
        if argv[0] == "sh":
            # Settings of another run are taken back.
            left, self.left = self.left, ""
            return left
        assert argv[2:5] == ("taint", "node", self.name)
        self.cluster.taints[self.name] = [_TAINT]
        return ""


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(["dev-control-plane", "dev-worker", "dev-worker2"])


async def test_node_that_is_about_to_register_does_not_join_the_story(cluster: Cluster) -> None:
    cluster.there["dev-worker"] = False
    members = KindMembers(list(cluster.nodes.values()))

    await members.take_out(cluster, await members.bring_in(cluster, 1))

    assert not cluster.nodes["dev-worker"].runs
    await members.bring_in(cluster, 2)
    assert cluster.there["dev-worker"]


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_the_scheduler_counts_as_many_nodes_as_the_story_has(count: int, cluster: Cluster) -> None:
    members = KindMembers(list(cluster.nodes.values()))

    await members.take_out(cluster, await members.bring_in(cluster, count))

    assert list(cluster.there.values()) == [True] * count + [False] * (3 - count)
    assert not cluster.taints["dev-control-plane"]


async def test_a_kubelet_with_the_settings_of_a_killed_run_is_restarted_without_them(cluster: Cluster) -> None:
    cluster.nodes["dev-worker"].left = "changed\n"

    await KindMembers(list(cluster.nodes.values())).bring_in(cluster, 2)

    told = [machine.told for machine in cluster.nodes.values()]
    assert told == [["start"], ["restart"], []]


async def test_a_node_comes_back_for_a_story_that_needs_it(cluster: Cluster) -> None:
    members = KindMembers(list(cluster.nodes.values()))
    await members.take_out(cluster, await members.bring_in(cluster, 1))

    others = await members.bring_in(cluster, 2)

    assert not others
    assert cluster.there == {"dev-control-plane": True, "dev-worker": True, "dev-worker2": False}


async def test_the_cluster_is_left_as_it_was_found(cluster: Cluster) -> None:
    members = KindMembers(list(cluster.nodes.values()))
    await members.take_out(cluster, await members.bring_in(cluster, 1))

    await members.restore()

    assert all(cluster.there.values())
    assert cluster.taints["dev-control-plane"] == [_TAINT]


async def test_a_node_that_was_ended_under_the_run_keeps_no_other_from_coming_back(cluster: Cluster) -> None:
    members = KindMembers(list(cluster.nodes.values()))
    await members.take_out(cluster, await members.bring_in(cluster, 1))
    cluster.nodes["dev-worker"].is_dead = True

    await members.restore()

    assert cluster.there == {"dev-control-plane": True, "dev-worker": False, "dev-worker2": True}


@pytest.mark.parametrize(
    ("nodes", "capability", "can"),
    [
        ([{}], Capability.SEVERAL_NODES, True),
        ([{}] * 3, Capability.SEVERAL_NODES, True),
        ([{}] * 4, Capability.SEVERAL_NODES, False),
        ([{"runtime": "process"}] * 2, Capability.PROCESS_RUNTIME, True),
        ([{"runtime": "process"}, {}], Capability.PROCESS_RUNTIME, False),
    ],
)
def test_what_nodes_a_cluster_can_give_to_a_story(
    nodes: list[dict[str, str]], capability: Capability, can: bool, cluster: Cluster
) -> None:
    story = Scenario.model_validate(
        {
            "name": "story",
            "description": "Nodes.",
            "nodes": [{"name": f"node-{index}", **node} for index, node in enumerate(nodes)],
            "steps": [{"restartKubelet": {"node": "node-0"}}],
        }
    )

    world = KindBackend(story, KindMembers(list(cluster.nodes.values())), Path("kubeconfig"), _IMAGE, {})

    assert (capability in world.capabilities) is can


def test_a_cluster_is_made_for_the_largest_story_that_it_can_play(tmp_path: Path) -> None:
    def job(name: str, nodes: int, step: str) -> Job:
        listed = ", ".join(f"{{name: node-{index}}}" for index in range(nodes))
        text = f"name: {name}\ndescription: Nodes.\nnodes: [{listed}]\nsteps:\n- {step}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
        return Job(load(tmp_path / f"{name}.yaml"), Options())

    jobs = [
        job("small", 1, "restartKubelet: {}"),
        job("large", 3, "restartKubelet: {node: node-0}"),
        job("never", 9, "advance: 5m"),
    ]

    assert nodes_needed(jobs) == 3
    assert nodes_needed([]) == 1
