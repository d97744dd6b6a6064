"""What a reader of a timeline is shown of each kind of event."""

from __future__ import annotations

from typing import get_args

import pytest

from scenarios.report.messages import (
    API_SERVER,
    FAULTS,
    STORY,
    TEXTS,
    Lane,
    Tone,
    details,
    ends,
    kubelet,
    plugin,
    pod,
    text,
    tone,
)
from scenarios.trace.events import (
    CriRefused,
    ExpectationFailed,
    ExpectationMet,
    FaultInjected,
    FileRemoved,
    PluginCalled,
    PluginExited,
    RegistrationAnswered,
    StepStarted,
)
from scenarios.trace.trace import Event
from simkubelet.model.events import (
    ContainerExited,
    DevicesAllocated,
    DevicesListed,
    EventRecorded,
    NodeStatusUpdated,
    PluginRegistered,
    PodScheduled,
    PodStatusUpdated,
)

LISTED = DevicesListed("node-1", "example.com/gpu", ("gpu-0", "gpu-1"), ("gpu-2",))


def test_each_kind_of_event_has_words() -> None:
    assert set(TEXTS) == set(get_args(Event))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (StepStarted(1, "the GPU fails"), "step 1: the GPU fails"),
        (
            ExpectationFailed(4, ("a: expected 2", "b: expected 1")),
            "step 4: the expectation is not met: a: expected 2; b:",
        ),
        (LISTED, "ListAndWatch example.com/gpu: 2 healthy, 1 unhealthy"),
        (FaultInjected("node-1", "gpu-0", 79, lost=True), "gpu-0 fails: XID 79 and fell off the bus"),
        (FaultInjected("node-1", "gpu-0", None), "gpu-0 fails: its vendor's monitor reports it as unhealthy"),
        (PodStatusUpdated("a", "Failed", "UnexpectedAdmissionError", ""), "a is Failed: UnexpectedAdmissionError"),
        (PluginExited("mine", "node-1", 1, "no socket"), "mine ended with status 1: no socket"),
        (RegistrationAnswered("mine", "node-1", "r", "s", ""), "Register r at s: accepted"),
        (RegistrationAnswered("mine", "node-1", "r", "s", "bad name"), "Register r at s: bad name"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_words_say_what_happened(event: Event, expected: str) -> None:
    assert text(event).startswith(expected)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (LISTED, Tone.BAD),
        (DevicesListed("node-1", "r", ("gpu-0",), ()), Tone.PLAIN),
        (ExpectationMet(1), Tone.GOOD),
        (ExpectationFailed(1, ()), Tone.BAD),
        (PluginExited("mine", "node-1", 0, ""), Tone.PLAIN),
        (PluginExited("mine", "node-1", -9, ""), Tone.BAD),
        (ContainerExited("node-1", "a", "main", 0, 137, "Error"), Tone.BAD),
        (EventRecorded("a", "Warning", "FailedScheduling", "", "default-scheduler"), Tone.BAD),
        (EventRecorded("a", "Normal", "Scheduled", "", "default-scheduler"), Tone.PLAIN),
        (CriRefused("node-1", ("StartContainer",)), Tone.BAD),
        (CriRefused("node-1", ()), Tone.PLAIN),
    ],
)
def test_tone_is_that_of_the_news(event: Event, expected: Tone) -> None:
    assert tone(event) is expected


@pytest.mark.parametrize(
    ("event", "source", "target"),
    [
        (StepStarted(1, "a"), STORY, STORY),
        (PluginRegistered("node-1", "r", "s.sock"), plugin("node-1", "mine"), kubelet("node-1")),
        (PluginRegistered("node-1", "other", "s.sock"), plugin("node-1", "other"), kubelet("node-1")),
        (PluginCalled("mine", "node-1", "Allocate", ()), kubelet("node-1"), plugin("node-1", "mine")),
        (DevicesAllocated("node-1", "a", "main", "r", ("gpu-0",)), kubelet("node-1"), pod("a")),
        (PodScheduled("a", "node-1"), API_SERVER, kubelet("node-1")),
        (NodeStatusUpdated("node-1", {}, {}), kubelet("node-1"), API_SERVER),
        (PodStatusUpdated("a", "Running", "", ""), API_SERVER, pod("a")),
        (CriRefused("node-1", ()), FAULTS, kubelet("node-1")),
        (FileRemoved("node-1", "/dev/x"), FAULTS, FAULTS),
    ],
)
def test_event_is_between_two_lanes(event: Event, source: Lane, target: Lane) -> None:
    served = {("node-1", "r"): "mine"}

    assert ends(event, lambda node, resource: served.get((node, resource), resource)) == (source, target)


def test_details_name_nested_fields_and_leave_out_empty_ones() -> None:
    event = DevicesAllocated("node-1", "a", "main", "", ("gpu-0",), {"envs": {"GPUS": "0", "NONE": ""}})

    assert list(details(event)) == [
        ("node", "node-1"),
        ("pod", "a"),
        ("container", "main"),
        ("devices", "[gpu-0]"),
        ("response.envs.GPUS", "0"),
    ]


def test_long_texts_are_shortened() -> None:
    event = EventRecorded("a", "Warning", "Failed", "x" * 1_000_000, "kubelet")

    assert len(text(event)) < 700
    assert max(len(value) for _, value in details(event)) < 700
    assert text(event).endswith("characters)")
