"""Normal forms of traces: what is chance is left out, what is not is found and explained."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.document import Document, load
from scenarios.equivalence import compare, explained, normal_form
from scenarios.trace import Event

_WORLDS = ("sim", "kind")
_STORY = """
name: two-pods
description: Two pods.
plugins:
  - name: gpu
    builtin: stub
    serves: {resource: example.com/gpu, devices: [gpu-0, gpu-1]}
steps:
  - expect: {node: node-1, allocatable: {example.com/gpu: 2}}
  - apply:
      apiVersion: v1
      kind: Pod
      metadata: {name: first}
      spec: {containers: [{name: main, image: none}]}
  - expect: {pod: first, phase: Running}
"""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Document:
    file = tmp_path_factory.mktemp("stories") / "two-pods.yaml"
    file.write_text(_STORY)
    return load(file)


def trace(*events: tuple[str, dict[str, Any]]) -> list[Event]:
    return [Event(seq, float(seq), kind, fields) for seq, (kind, fields) in enumerate(events)]


def step(number: int) -> tuple[str, dict[str, Any]]:
    return "step-started", {"step": number, "title": ""}


def met(number: int) -> tuple[str, dict[str, Any]]:
    return "expectation-met", {"step": number}


def given_devices(pod: str, *devices: str) -> tuple[str, dict[str, Any]]:
    return "devices-allocated", {
        "node": "node-1",
        "pod": pod,
        "container": "main",
        "resource": "example.com/gpu",
        "devices": devices,
    }


def published(amount: int, cpu: int = 8000) -> tuple[str, dict[str, Any]]:
    resources = {"cpu": cpu, "example.com/gpu": amount}
    return "node-status", {"node": "node-1", "capacity": resources, "allocatable": resources}


def status(pod: str, phase: str) -> tuple[str, dict[str, Any]]:
    return "pod-status", {"pod": pod, "phase": phase, "reason": "", "message": ""}


def said(pod: str, message: str) -> tuple[str, dict[str, Any]]:
    return "event", {"pod": pod, "type": "Normal", "reason": "Started", "message": message, "component": "kubelet"}


def differ(story: Document, first: Sequence[Event], second: Sequence[Event]) -> list[str]:
    scenario = story.scenario
    found = compare(normal_form(first, scenario), normal_form(second, scenario), _WORLDS, cut=1)
    return [] if found is None else [found.lane, *found.lines]


def test_other_devices_of_the_same_history_are_no_difference(story: Document) -> None:
    first = trace(step(1), given_devices("first", "gpu-0"), given_devices("second", "gpu-1"), step(2))
    second = trace(step(1), given_devices("first", "gpu-1"), given_devices("second", "gpu-0"), step(2))

    assert not differ(story, first, second)


def test_a_device_shared_where_it_should_not_be_is_a_difference(story: Document) -> None:
    first = trace(step(1), given_devices("first", "gpu-0"), given_devices("second", "gpu-1"), step(2))
    second = trace(step(1), given_devices("first", "gpu-0"), given_devices("second", "gpu-0"), step(2))

    assert differ(story, first, second)[0] == "devices of pod first"


def test_the_order_between_pods_is_chance_and_within_one_is_not(story: Document) -> None:
    first = trace(step(1), status("first", "Running"), status("second", "Running"), status("first", "Failed"), step(2))
    swapped = trace(
        step(1), status("second", "Running"), status("first", "Running"), status("first", "Failed"), step(2)
    )
    reversed_ = trace(
        step(1), status("first", "Failed"), status("second", "Running"), status("first", "Running"), step(2)
    )

    assert not differ(story, first, swapped)
    assert differ(story, first, reversed_)[0] == "pod first"


def test_what_a_node_publishes_counts_where_the_story_looked(story: Document) -> None:
    first = trace(step(0), published(2), met(0))
    detour = trace(step(0), published(0), published(1), published(2, cpu=2000), met(0))
    other = trace(step(0), published(1), met(0))

    assert not differ(story, first, detour)
    assert differ(story, first, other)[0] == "node node-1"


def test_an_event_said_twice_is_an_event_said_once(story: Document) -> None:
    once = trace(step(1), said("first", "a"), said("first", "b"), step(2))
    twice = trace(step(1), said("first", "b"), said("first", "a"), said("first", "b"), step(2))

    assert not differ(story, once, twice)


def test_what_happens_after_the_last_step_is_the_end_of_the_world(story: Document) -> None:
    first = trace(step(2), met(2))
    second = trace(step(2), met(2), status("first", "Failed"))

    assert not differ(story, first, second)


def test_the_first_divergence_names_lane_and_step(story: Document) -> None:
    scenario = story.scenario
    first = trace(step(0), status("first", "Running"), step(1), status("second", "Running"), step(2))
    second = trace(step(0), status("first", "Running"), step(1), status("second", "Failed"), step(2))

    found = compare(normal_form(first, scenario), normal_form(second, scenario), _WORLDS, cut=1)

    assert found is not None
    assert explained(found, scenario) == "the traces differ first in 'pod second', at step 'apply pod first'"
    assert found.lines == (
        "pod second",
        "  --- sim",
        "  +++ kind",
        "  -pod-status phase=Running",
        "  +pod-status phase=Failed",
    )


def test_what_only_one_world_got_to_after_the_last_action_is_no_difference(story: Document) -> None:
    late = trace(step(0), status("first", "Running"), step(1), said("first", "a"), status("first", "Failed"), step(2))
    early = trace(step(0), status("first", "Running"), step(1), step(2))
    never = trace(step(0), step(1), step(2))

    assert not differ(story, late, early)
    assert differ(story, early, never)[0] == "pod first"


@given(names=st.permutations(["gpu-0", "gpu-1", "gpu-2"]), seed=st.integers(0, 2**32))
def test_renaming_devices_changes_no_normal_form(story: Document, names: list[str], seed: int) -> None:
    renamed = dict(zip(["gpu-0", "gpu-1", "gpu-2"], names, strict=True))
    chosen = random.Random(seed)  # noqa: S311  # a choice of data, no secret
    pods = [(f"pod-{number}", chosen.sample(sorted(renamed), 2)) for number in range(3)]
    first = trace(step(1), *(given_devices(pod, *ids) for pod, ids in pods), step(2))
    second = trace(step(1), *(given_devices(pod, *(renamed[one] for one in ids)) for pod, ids in pods), step(2))

    assert normal_form(first, story.scenario) == normal_form(second, story.scenario)
