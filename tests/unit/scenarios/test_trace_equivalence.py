"""Normal forms of traces: what is chance is left out, what is not is found and explained."""

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.play.comparison import compare, explained
from scenarios.play.normal_form import normal_form
from scenarios.story.document import Document, load
from scenarios.story.model import Step
from scenarios.story.verbs.file_action import AddStaticPod
from scenarios.trace.events import ExpectationMet, FaultHealed, FaultInjected, StepStarted
from scenarios.trace.trace import Entry, Event
from simkubelet.model.events import (
    ContainerExited,
    ContainerStarted,
    DevicesAllocated,
    DriverConnected,
    DriverDisconnected,
    DriverReconnected,
    EventRecorded,
    NodeStatusUpdated,
    PodRemoved,
    PodStatusUpdated,
)

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


def trace(*events: Event) -> list[Entry]:
    return [Entry(seq, float(seq), event) for seq, event in enumerate(events)]


def step(number: int) -> StepStarted:
    return StepStarted(number + 1, "")


def met(number: int) -> ExpectationMet:
    return ExpectationMet(number + 1)


def given_devices(pod: str, *devices: str, node: str = "node-1", container: str = "main") -> DevicesAllocated:
    return DevicesAllocated(node, pod, container, "example.com/gpu", devices)


def published(amount: int, cpu: int = 8000) -> NodeStatusUpdated:
    resources = {"cpu": cpu, "example.com/gpu": amount}
    return NodeStatusUpdated("node-1", resources, resources)


def status(pod: str, phase: str, reason: str = "", message: str = "") -> PodStatusUpdated:
    return PodStatusUpdated(pod, phase, reason, message)


def event(pod: str, reason: str, message: str) -> EventRecorded:
    return EventRecorded(pod, "Normal", reason, message, "kubelet")


def said(pod: str, message: str) -> EventRecorded:
    return event(pod, "Started", message)


def started(container: str = "main") -> ContainerStarted:
    return ContainerStarted("n", "first", container, 0)


def exited(container: str = "main", code: int = 0) -> ContainerExited:
    return ContainerExited("n", "first", container, 0, code, "")


def differ(story: Document, first: Sequence[Entry], second: Sequence[Entry]) -> list[str]:
    scenario = story.scenario
    found = compare(normal_form(first, scenario), normal_form(second, scenario), _WORLDS)
    return [] if found is None else [found.lane, *found.lines]


def test_other_devices_of_the_same_history_are_no_difference(story: Document) -> None:
    first = trace(step(1), given_devices("first", "gpu-0"), given_devices("second", "gpu-1"), step(2))
    second = trace(step(1), given_devices("first", "gpu-1"), given_devices("second", "gpu-0"), step(2))

    assert not differ(story, first, second)


def test_events_of_the_simulator_itself_are_no_difference(story: Document) -> None:
    said_by_simulator = EventRecorded("first", "Warning", "NotSimulated", "not simulated: spec.x: no", "simkubelet")
    first = trace(step(1), said_by_simulator, step(2))
    second = trace(step(1), step(2))

    assert not differ(story, first, second)
    assert differ(story, trace(step(1), replace(said_by_simulator, component="kubelet"), step(2)), second)


def test_what_a_plugin_answered_is_no_difference(story: Document) -> None:
    allocated = given_devices("first", "gpu-0")
    first = trace(step(1), replace(allocated, response={"envs": {"GPU": "gpu-0"}}), step(2))
    second = trace(step(1), replace(allocated, response={"envs": {"GPU": "gpu-1"}}), step(2))

    assert not differ(story, first, second)


def test_the_registrations_of_a_driver_count_and_not_its_connections(story: Document) -> None:
    driver = ("node-1", "dra.example.com", "dra.example.com/dra.sock")
    connected, again, ended = DriverConnected(*driver), DriverReconnected(*driver), DriverDisconnected(*driver)
    restarted = trace(connected, ended, connected, step(1))

    assert not differ(story, trace(connected, ended, again, ended, connected, step(1)), restarted)
    assert differ(story, trace(connected, ended, again, step(1)), restarted)


def test_a_device_shared_where_it_should_not_be_is_a_difference(story: Document) -> None:
    first = trace(step(1), given_devices("first", "gpu-0"), given_devices("second", "gpu-1"), step(2))
    second = trace(step(1), given_devices("first", "gpu-0"), given_devices("second", "gpu-0"), step(2))

    assert differ(story, first, second) == [
        "devices of pod second",
        "devices of pod second",
        "  --- sim",
        "  +++ kind",
        "  -main example.com/gpu [<free>]",
        "  +main example.com/gpu [<first/main>]",
    ]


@pytest.mark.parametrize("end", [PodRemoved("first"), status("first", "Succeeded")])
def test_who_had_a_free_device_before_is_no_difference(story: Document, end: Event) -> None:
    first = trace(step(1), given_devices("first", "gpu-0"), end, given_devices("second", "gpu-0"), step(2))
    second = trace(step(1), given_devices("first", "gpu-0"), end, given_devices("second", "gpu-1"), step(2))

    assert not differ(story, first, second)


def test_refusal_may_come_before_the_allocation(story: Document) -> None:
    refused, allocated = status("first", "Failed"), given_devices("first", "gpu-0")
    after = given_devices("second", "gpu-0")
    first = trace(step(1), allocated, refused, after, step(2))
    second = trace(step(1), refused, allocated, after, step(2))

    assert not differ(story, first, second)


def test_init_container_devices_are_recorded_in_any_order(story: Document) -> None:
    init = given_devices("first", "gpu-0", "gpu-1", container="init")
    main = given_devices("first", "gpu-1")

    assert not differ(story, trace(step(1), init, main, step(2)), trace(step(1), main, init, step(2)))
    other = given_devices("first", "gpu-2")
    assert differ(story, trace(step(1), init, main, step(2)), trace(step(1), init, other, step(2)))


def test_the_faults_of_a_device_count(story: Document) -> None:
    broken = FaultInjected("node-1", "gpu-0", None, lost=True)
    healed = FaultHealed("node-1", "gpu-0")
    well, ill = given_devices("first", "gpu-1"), given_devices("first", "gpu-0")

    assert differ(story, trace(step(1), broken, well, step(2)), trace(step(1), broken, ill, step(2)))
    assert not differ(
        story, trace(step(1), broken, healed, well, step(2)), trace(step(1), broken, healed, ill, step(2))
    )


def test_devices_of_two_nodes_have_their_own_holders_whatever_their_ids(story: Document) -> None:
    first = trace(step(1), given_devices("first", "gpu-0"), given_devices("second", "gpu-0", node="node-2"), step(2))
    second = trace(step(1), given_devices("first", "gpu-0"), given_devices("second", "gpu-1", node="node-2"), step(2))

    assert not differ(story, first, second)


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


def test_what_only_one_world_tells_after_the_story_is_no_difference(story: Document) -> None:
    first = trace(step(2), met(2))
    second = trace(step(2), met(2), status("first", "Failed"), said("first", "a"))

    assert not differ(story, first, second)


def test_the_first_divergence_names_lane_and_step(story: Document) -> None:
    scenario = story.scenario
    first = trace(step(0), status("first", "Running"), step(1), status("second", "Running"), step(2))
    second = trace(step(0), status("first", "Running"), step(1), status("second", "Failed"), step(2))

    found = compare(normal_form(first, scenario), normal_form(second, scenario), _WORLDS)

    assert found is not None
    assert explained(found, scenario) == "the traces differ first in 'pod second', at step 'apply pod first'"
    assert found.lines == (
        "pod second",
        "  --- sim",
        "  +++ kind",
        "  -pod-status phase=Running",
        "  +pod-status phase=Failed",
    )


def test_events_of_one_world_come_later_in_the_other(story: Document) -> None:
    early = trace(step(2), status("first", "Running"), said("first", "a"), met(2), status("first", "Failed"))
    late = trace(step(2), met(2), said("first", "a"), status("first", "Running"))
    never = trace(step(2), met(2))
    other = trace(step(2), met(2), said("first", "a"), status("first", "Failed"))

    assert not differ(story, early, late)
    assert not differ(story, late, early)
    assert differ(story, early, never) == [
        "events of pod first",
        "events of pod first",
        "  --- sim",
        "  +++ kind",
        "  -Normal Started: a",
        "pod first",
        "  --- sim",
        "  +++ kind",
        "  -pod-status phase=Running",
    ]
    assert differ(story, early, other)[0] == "pod first"


def test_uids_are_the_worlds_own(story: Document) -> None:
    texts = [f"Back-off restarting failed container main in pod first_default({uuid.uuid4()})" for _ in range(2)]
    first, second = (trace(step(1), event("first", "BackOff", text), step(2)) for text in texts)

    assert not differ(story, first, second)


def test_memory_of_a_kubelet_is_its_own(story: Document) -> None:
    texts = [
        "endpoint &{{{} {0 0}} gpu 0xc0 {1 2 0x5f} <nil>} stopped",
        "endpoint &{{{} {0 0}} gpu 0xd0 {3 4 0x9a} <nil>} stopped",
    ]
    first, second = ([event("first", "R", text), status("first", "Failed", "R", text)] for text in texts)

    assert not differ(story, trace(step(1), *first, step(2)), trace(step(1), *second, step(2)))
    assert differ(story, trace(step(1), *first, step(2)), trace(step(1), event("first", "R", "x"), first[1], step(2)))


@pytest.mark.parametrize(
    ("reason", "message", "counts"),
    [
        ("Failed", "Error: device plugin says no", True),
        ("BackOff", "Back-off restarting failed container main", True),
        ("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.", True),
        ("Failed", "Error: ErrImagePull", False),
        ("Failed", 'Failed to pull image "a": no such host', False),
        ("BackOff", 'Back-off pulling image "a"', False),
        ("Pulled", 'Container image "a" already present on machine', False),
        ("FailedCreatePodSandBox", "Failed to create pod sandbox: no network", False),
    ],
)
def test_events_about_images_and_networks_do_not_count(
    story: Document, reason: str, message: str, counts: bool
) -> None:
    told = trace(step(1), event("first", reason, message), step(2))

    assert bool(differ(story, told, trace(step(1), step(2)))) == counts


def test_the_order_between_containers_of_a_pod_is_chance_and_within_one_is_not(story: Document) -> None:
    running = status("first", "Running")
    first = trace(step(1), started("b"), exited("b"), started("a"), running, step(2))
    other = trace(step(1), started("a"), started("b"), exited("b"), running, step(2))
    wrong = trace(step(1), started("a"), exited("b"), started("b"), running, step(2))
    late = trace(step(1), started("b"), exited("b"), running, started("a"), step(2))

    assert not differ(story, first, other)
    assert differ(story, first, wrong)
    assert differ(story, first, late)


def test_the_end_of_a_container_counts_as_long_as_its_pod_is_there(story: Document) -> None:
    end, gone = exited(), PodRemoved("first")

    assert not differ(story, trace(step(1), gone, end, step(2)), trace(step(1), gone, step(2)))
    assert differ(story, trace(step(1), end, gone, step(2)), trace(step(1), gone, step(2)))
    again = status("first", "Running")
    assert differ(story, trace(step(1), gone, again, end, step(2)), trace(step(1), gone, again, step(2)))


def test_the_end_of_a_container_of_a_refused_pod_is_chance(story: Document) -> None:
    start, end = started(), exited(code=137)
    refused = status("first", "Failed", "R", "Pod was rejected: no")
    failed = status("first", "Failed", "R", "Something else")

    assert not differ(story, trace(step(1), start, end, refused, step(2)), trace(step(1), start, refused, step(2)))
    assert not differ(story, trace(step(1), start, refused, end, step(2)), trace(step(1), start, refused, step(2)))
    assert differ(story, trace(step(1), start, refused, step(2)), trace(step(1), refused, step(2)))
    assert differ(story, trace(step(1), start, end, failed, step(2)), trace(step(1), start, failed, step(2)))


def test_the_end_of_a_container_of_a_static_pod_that_is_removed_is_chance(story: Document) -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first"}}
    spec = {"containers": [{"name": "main", "image": "none"}]}
    static = AddStaticPod.model_validate({"manifest": {**manifest, "spec": spec}})
    steps = (Step(addStaticPod=static), *story.scenario.steps)
    with_static_pod = replace(story, scenario=story.scenario.model_copy(update={"steps": steps}))
    start, end = (replace(one, pod="first-node-1") for one in (started(), exited()))
    gone = PodRemoved("first-node-1")

    shown, hidden = trace(step(1), start, end, gone, step(2)), trace(step(1), start, gone, step(2))
    assert differ(story, shown, hidden)
    assert not differ(with_static_pod, shown, hidden)
    again = trace(step(1), start, end, start, gone, step(2))
    assert differ(with_static_pod, again, trace(step(1), start, start, gone, step(2)))


@given(names=st.permutations(["gpu-0", "gpu-1", "gpu-2"]), seed=st.integers(0, 2**32))
def test_renaming_devices_changes_no_normal_form(story: Document, names: list[str], seed: int) -> None:
    renamed = dict(zip(["gpu-0", "gpu-1", "gpu-2"], names, strict=True))
    chosen = random.Random(seed)  # noqa: S311  # a choice of data, no secret
    pods = [(f"pod-{number}", chosen.sample(sorted(renamed), 2)) for number in range(3)]
    first = trace(step(1), *(given_devices(pod, *ids) for pod, ids in pods), step(2))
    second = trace(step(1), *(given_devices(pod, *(renamed[one] for one in ids)) for pod, ids in pods), step(2))

    assert normal_form(first, story.scenario) == normal_form(second, story.scenario)
