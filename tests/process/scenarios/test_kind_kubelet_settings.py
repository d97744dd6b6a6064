"""A kubelet's settings for one story, on a node that is a folder."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scenarios.backends.kind.docker import output_of
from scenarios.backends.kind.image import PluginImage
from scenarios.backends.kind.kubelets import changed_settings, set_up, take_back
from scenarios.backends.kind.node import KindNode
from scenarios.story.specs import NodeSpec, TopologySpec

_IMAGE = PluginImage("simkubelet/plugin:1", "/usr/bin/python3", "/site")
_LOGGING = "{verbosity: 2, vmodule: [{filePattern: dra_plugin_manager, verbosity: 3}]}"
_SETTINGS = f"kind: KubeletConfiguration\nlogging: {_LOGGING}\nfeatureGates: {{A: true}}\n"
_PLAIN = NodeSpec(name="node-1")
_ALIGNED = NodeSpec.model_validate(
    {
        "name": "node-1",
        "topology": {"policy": "restricted", "scope": "pod", "options": {"prefer-closest-numa-nodes": "true"}},
        "featureGates": {"B": False},
    }
)


class Node(KindNode):
    """Commands work below a folder; commands to systemd are kept."""

    def __init__(self, root: Path) -> None:
        super().__init__("node-1", "dev-control-plane", _IMAGE, lambda told: None)
        self.root = root
        self.told: list[str] = []

    @property
    def settings(self) -> Any:
        return yaml.safe_load((self.root / "var/lib/kubelet/config.yaml").read_text())

    async def run(self, *argv: str, given: bytes | None = None, within_s: float = 60.0) -> str:
        if argv[0] == "systemctl":
            self.told.append(argv[1])
            return ""
        here = [word.replace("/var/lib/kubelet", f"{self.root}/var/lib/kubelet") for word in argv]
        return await output_of(*here, given=given, within_s=within_s)

    async def ask(self, do: str, **given: Any) -> Any:
        self.told.append(do)

    async def start_kubelet(self) -> None:
        self.told.append("start until it serves")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    folder = tmp_path / "var/lib/kubelet"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(_SETTINGS)
    return Node(tmp_path)


async def test_a_story_without_settings_leaves_the_kubelet_alone(node: Node) -> None:
    await set_up(node, _PLAIN, has_cri_tap=False)

    assert not node.told
    assert not await take_back(node)
    assert node.settings == yaml.safe_load(_SETTINGS)


@pytest.mark.parametrize(
    ("logging", "logs"),
    [
        pytest.param("{format: json}", {"format": "json", "verbosity": 2}, id="json"),
        pytest.param("{verbosity: 1}", yaml.safe_load(_LOGGING), id="text"),
    ],
)
async def test_kubelet_logs_more_during_the_story(node: Node, logging: str, logs: Any) -> None:
    quiet = f"kind: KubeletConfiguration\nlogging: {logging}\n"
    (node.root / "var/lib/kubelet/config.yaml").write_text(quiet)

    await set_up(node, _PLAIN, has_cri_tap=False)

    assert node.told == ["stop", "start until it serves"]
    assert node.settings["logging"] == logs
    assert await take_back(node)
    assert node.settings == yaml.safe_load(quiet)


async def test_a_storys_settings_are_the_next_instances_and_go_again(node: Node) -> None:
    await set_up(node, _ALIGNED, has_cri_tap=False)

    assert node.told == ["stop", "start until it serves"]
    assert node.settings == changed_settings(yaml.safe_load(_SETTINGS), _ALIGNED)
    assert node.settings["topologyManagerPolicy"] == "restricted"
    assert node.settings["featureGates"] == {"A": True, "B": False}

    assert await take_back(node)
    assert node.settings == yaml.safe_load(_SETTINGS)
    assert not await take_back(node)


async def test_a_tap_listens_before_the_kubelet_that_takes_it_for_its_runtime(node: Node) -> None:
    await set_up(node, _PLAIN, has_cri_tap=True)

    assert node.told == ["add_cri_tap", "stop", "start until it serves"]
    assert node.settings["containerRuntimeEndpoint"] == "unix:///var/lib/simkubelet/cri.sock"
    assert await take_back(node)
    assert node.settings == yaml.safe_load(_SETTINGS)


async def test_settings_that_a_killed_run_left_are_not_taken_for_the_clusters(node: Node) -> None:
    await set_up(node, _ALIGNED, has_cri_tap=False)
    await set_up(node, NodeSpec(name="node-1", topology=TopologySpec(policy="best-effort")), has_cri_tap=False)

    await take_back(node)

    assert node.settings == yaml.safe_load(_SETTINGS)


def test_the_configuration_can_be_given_to_a_kubelet() -> None:
    changed = json.loads(json.dumps(changed_settings({"logging": {"verbosity": 3}}, _ALIGNED)))

    assert changed == {
        "logging": {"verbosity": 3},
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
        "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
        "featureGates": {"B": False},
    }
