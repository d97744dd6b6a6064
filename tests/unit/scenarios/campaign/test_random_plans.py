"""Plans of random stories: what the same seed gives, and that each is a story that can be read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.campaign.generator import plan_of
from scenarios.campaign.plan import Plan, pod_of, story_of, yaml_of
from scenarios.story.document import load
from scenarios.story.verbs.plugin_action import StopPlugin

SEEDS = st.integers(0, 2**31 - 1)
STUB: dict[str, Any] = {
    "name": "red",
    "builtin": "stub",
    "serves": {"resource": "example.com/red", "devices": [{"id": "red-0"}]},
}
NODE = {"name": "node-1", "kubernetes": "1.34"}


@settings(max_examples=30)
@given(seed=SEEDS, number=st.integers(0, 10**6))
def test_generated_plan_is_a_story_that_loads(seed: int, number: int, tmp_path: Path) -> None:
    plan = plan_of(seed, number)
    path = tmp_path / "story-1.yaml"
    path.write_text(yaml_of(story_of(plan, "story-1", "A story of a campaign.")), encoding="utf-8")

    scenario = load(path).scenario

    assert [spec.name for spec in scenario.plugins] == [plugin["name"] for plugin in plan.plugins]
    assert len(scenario.steps) > len(plan.steps)


@given(seed=SEEDS, numbers=st.permutations(range(6)))
def test_plans_are_the_same_in_whatever_order_they_are_made(seed: int, numbers: list[int]) -> None:
    in_order = [plan_of(seed, number) for number in range(6)]

    made = {number: plan_of(seed, number) for number in numbers}

    assert [made[number] for number in range(6)] == in_order


def test_plans_of_a_campaign_differ_and_use_every_kind_of_step() -> None:
    plans = [plan_of(7, number) for number in range(1000)]

    verbs = {next(iter(step)) for plan in plans for step in plan.steps}

    assert len({repr(plan) for plan in plans}) == len(plans)
    assert verbs == {
        *("addStaticPod", "advance", "answerRpc", "apply", "changeCheckpoint", "delete", "endStream", "exitContainer"),
        *("fillDisk", "freeDisk", "killPlugin", "listDevices", "pauseRuntime", "rebootNode", "refuseCri"),
        *("registerPlugin", "removeStaticPod", "restartKubelet", "resumeRuntime", "startKubelet", "startPlugin"),
        *("stopKubelet", "stopPlugin", "stopServer", "syncNodeStatus"),
    }


def test_healed_story_ends_with_a_pod_that_has_to_run(tmp_path: Path) -> None:
    plan = Plan((NODE,), (STUB,), ({"apply": pod_of("p1", {"example.com/red": 1})},))
    path = tmp_path / "healed.yaml"
    path.write_text(yaml_of(story_of(plan, "healed", "It is healed at its end.")), encoding="utf-8")

    steps = load(path).scenario.steps

    assert any(isinstance(step.action, StopPlugin) for step in steps)
    (last,) = [step.expect for step in steps if getattr(step.expect, "pod", "") == "last-0"]
    assert (last.phase, last.devices) == ("Running", {"example.com/red": 1})


def test_plugin_that_the_kubelet_has_to_find_has_longer_to_be_found_again() -> None:
    found = {**STUB, "serves": {**STUB["serves"], "registers": "found"}}

    assert _last_connection(STUB)["within"] == "11s"
    assert _last_connection(found)["within"] == "3m"


def _last_connection(plugin: Mapping[str, Any]) -> Mapping[str, Any]:
    steps = story_of(Plan((NODE,), (plugin,), ()), "story-1", "A story of a campaign.")["steps"]
    expectations: list[Mapping[str, Any]] = [step["expect"] for step in steps if "expect" in step]
    return next(one for one in expectations if "connected" in one)
