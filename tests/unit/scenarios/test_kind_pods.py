"""What a story's manifests become on a cluster: stand-ins, or the containers' own programs."""

import sys
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.kind.image import PluginImage
from scenarios.backends.kind.node import KindNode
from scenarios.backends.kind.pods import KindPods, mark_of
from scenarios.story.specs import NodeSpec, Runtime
from simkubelet.model.errors import InputError

_IMAGE = PluginImage("simkubelet/plugin:1", "/usr/bin/python3", "/site")
_PYTHON = str(Path(sys.executable).resolve())
_MARK = {"name": "SIMKUBELET_PLUGIN", "value": mark_of("trainer", "main")}


class Node(KindNode):
    """A node that keeps what it is given."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"dev-{name}", _IMAGE, lambda told: None)
        self.archives: list[bytes] = []

    async def put(self, archive: bytes) -> None:
        self.archives.append(archive)


@pytest.fixture
def nodes() -> list[Node]:
    return [Node("node-1"), Node("node-2")]


def pods(nodes: list[Node], runtime: Runtime) -> KindPods:
    return KindPods([NodeSpec(name=node.name, runtime=runtime) for node in nodes], nodes, _IMAGE)


def manifest(**main: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "trainer", "labels": {"app": "x"}},
        "spec": {"nodeName": "node-2", "containers": [{"name": "main", "image": "busybox", **main}]},
    }


async def test_stand_ins_keep_requests_and_need_no_image(nodes: list[Node]) -> None:
    limits = {"limits": {"example.com/gpu": 1}}
    given = manifest(resources=limits)
    given["spec"]["initContainers"] = [{"name": "warm-up", "image": "busybox", "command": ["true"], "args": ["x"]}]

    made = await pods(nodes, Runtime.BOOK_KEEPING).manifest(given)

    (main,), (warm_up,) = made["spec"]["containers"], made["spec"]["initContainers"]
    assert made["metadata"]["labels"] == {"app": "x", "app.kubernetes.io/managed-by": "simkubelet"}
    assert made["spec"]["nodeName"] == "dev-node-2"
    assert main["resources"] == limits
    assert {main["image"], warm_up["image"]} == {"docker.io/simkubelet/plugin:1"}
    assert "args" not in warm_up
    assert warm_up["command"][-1] == ""
    assert _MARK in main["env"]
    assert not any(node.archives for node in nodes)


async def test_where_processes_run_a_containers_own_program_is_brought_to_every_node(
    nodes: list[Node], tmp_path: Path
) -> None:
    script = tmp_path / "work.py"
    script.touch()
    given = manifest(command=["python3"], args=[str(script), "--fast"], env=[{"name": "A", "value": "1"}])

    made = await pods(nodes, Runtime.PROCESS).manifest(given)

    (main,), (volume,) = made["spec"]["containers"], made["spec"]["volumes"]
    assert main["command"] == [_PYTHON, str(script), "--fast"]
    assert "args" not in main
    assert {"name": "A", "value": "1"} in main["env"]
    assert {"name": "PYTHONPATH", "value": "/site"} in main["env"]
    assert _MARK in main["env"]
    assert main["volumeMounts"] == [{"name": volume["name"], "mountPath": str(script)}]
    assert volume["hostPath"]["path"].endswith(str(script))
    assert [len(node.archives) for node in nodes] == [1, 1]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([], "pod 'trainer': container 'main' needs a command"),
        (["no-such-program"], "pod 'trainer': container 'main': no program 'no-such-program'"),
    ],
)
async def test_a_container_without_a_program_is_reported(command: list[str], words: str, nodes: list[Node]) -> None:
    with pytest.raises(InputError) as caught:
        await pods(nodes, Runtime.PROCESS).manifest(manifest(command=command))

    assert str(caught.value).startswith(words)


async def test_a_static_pod_is_the_same_for_the_same_manifest_of_one_story_alone(nodes: list[Node]) -> None:
    story, other_story = pods(nodes, Runtime.BOOK_KEEPING), pods(nodes, Runtime.BOOK_KEEPING)

    first, again = [(await story.static_manifest(manifest()))["metadata"] for _ in range(2)]
    changed = (await story.static_manifest(manifest(resources={"limits": {"example.com/gpu": 1}})))["metadata"]
    elsewhere = (await other_story.static_manifest(manifest()))["metadata"]
    given = manifest() | {"metadata": {"name": "trainer", "uid": "mine"}}

    assert first["name"] == "trainer"
    assert first["uid"] == again["uid"]
    assert len({first["uid"], changed["uid"], elsewhere["uid"]}) == 3
    assert (await story.static_manifest(given))["metadata"]["uid"] == "mine"
