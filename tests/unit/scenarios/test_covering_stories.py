"""The choice of stories that are played on real clusters."""

from __future__ import annotations

from typing import Any

from scenarios.story.model import Scenario
from tests.support.stories import covering, keys_of

WAITS: dict[str, Any] = {"expect": {"pod": "one", "phase": "Running"}}
NAMES_A_REASON: dict[str, Any] = {"expect": {"pod": "one", "reason": "UnexpectedAdmissionError"}}
RESTARTS: dict[str, Any] = {"restartKubelet": {}}


def story(*steps: dict[str, Any]) -> Scenario:
    return Scenario.model_validate(
        {"name": "one", "description": "One.", "nodes": [{"name": "node-1"}], "plugins": [], "steps": list(steps)}
    )


def test_keys_are_found_at_each_depth() -> None:
    assert {"Scenario.steps", "NodeSpec.name", "PodExpectation.phase"} <= set(keys_of(story(WAITS)))
    assert "PodExpectation.reason" not in set(keys_of(story(WAITS)))


def test_each_key_is_used_by_a_chosen_story_and_the_shorter_one_is_taken() -> None:
    stories = {"slow": story(WAITS), "fast": story(WAITS), "reason": story(NAMES_A_REASON), "kubelet": story(RESTARTS)}

    chosen = covering(stories, {"slow": 20.0, "fast": 2.0, "reason": 3.0, "kubelet": 4.0})

    assert chosen == {"fast", "reason", "kubelet"}
