from __future__ import annotations

from itertools import chain, repeat

import pytest

from scenarios.evaluation.diagnosis import diagnoses
from scenarios.trace.events import PluginExited
from scenarios.trace.snapshot import PluginState, PluginView
from scenarios.trace.trace import Event, Trace
from simkubelet.model.events import (
    EventRecorded,
    KubeletCrashed,
    KubeletStarted,
    KubeletStopped,
    PluginDisconnected,
    PluginRegistered,
    RegistrationRefused,
)

NODE, GPU = "node-1", "example.com/gpu"
STARTED, STOPPED = KubeletStarted(NODE, "v1.34.4"), KubeletStopped(NODE)
REGISTERED = PluginRegistered(NODE, GPU, "gpu.sock")
REFUSED = RegistrationRefused(NODE, GPU, "gpu.sock", "no such version")
LOST = PluginDisconnected(NODE, GPU, "EOF")
WARNING = EventRecorded("trainer", "Warning", "FailedScheduling", "0/1 nodes are available", "scheduler")


def found(*events: Event, state: PluginState = PluginState.RUNNING, registrations: int = 1) -> tuple[str, ...]:
    times_s = chain((0.0,), repeat(2.0))
    trace = Trace(now=lambda: next(times_s))
    for event in events:
        trace.append(event)
    return diagnoses(trace[:], [PluginView("mine", NODE, state, 0, registrations)], "trainer")


@pytest.mark.parametrize(
    ("events", "words"),
    [
        pytest.param((STARTED, STOPPED), "of 'node-1' stopped at 2.000 s and has not", id="kubelet stopped"),
        pytest.param((STARTED, KubeletCrashed(NODE, "panic: x")), "crashed at 2.000 s: panic: x", id="kubelet crashed"),
        pytest.param((STARTED, REFUSED), "registration of 'example.com/gpu': no such version", id="refused"),
        pytest.param((STARTED, REGISTERED, STOPPED, STARTED), "has registered 'example.com/gpu' again", id="k"),
        pytest.param((STARTED, REGISTERED, LOST), "ended at 2.000 s, and it has not registered again: EOF", id="lost"),
        pytest.param((STARTED, WARNING), "pod 'trainer' is FailedScheduling: 0/1 nodes are available", id="warning"),
    ],
)
def test_usual_mistake_is_named(events: tuple[Event, ...], words: str) -> None:
    (diagnosis,) = found(*events)

    assert words in diagnosis


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((STARTED, REGISTERED), id="registered"),
        pytest.param((STARTED, REFUSED, REGISTERED), id="accepted later"),
        pytest.param((STARTED, REGISTERED, LOST, REGISTERED), id="another stream"),
        pytest.param((STARTED, REGISTERED, PluginDisconnected(NODE, GPU)), id="ended by the kubelet"),
        pytest.param((STARTED, REGISTERED, LOST, STOPPED, STARTED, REGISTERED), id="another kubelet"),
        pytest.param((STARTED, REGISTERED, STOPPED, STARTED, REGISTERED), id="registered again"),
        pytest.param((STARTED, EventRecorded("other", "Warning", "x", "y", "z")), id="another pod"),
        pytest.param((STARTED, EventRecorded("trainer", "Normal", "x", "y", "z")), id="no warning"),
    ],
)
def test_without_a_usual_mistake_there_is_no_diagnosis(events: tuple[Event, ...]) -> None:
    assert found(*events) == ()


def test_plugin_that_never_registered_is_named() -> None:
    assert found(STARTED, registrations=0) == ("plugin 'mine' runs but has not registered with the kubelet",)


@pytest.mark.parametrize(("status", "how"), [(3, "exited with status 3"), (-9, "was killed by signal 9")])
@pytest.mark.parametrize("state", [PluginState.WAITING, PluginState.EXITED])
def test_plugin_that_has_ended_is_named(status: int, how: str, state: PluginState) -> None:
    exited = PluginExited("mine", NODE, status, "no GPU")

    (diagnosis,) = found(exited, state=state)
    assert diagnosis == f"plugin 'mine' {how} at 2.000 s and does not run now; its log says: no GPU"
    assert found(exited, state=PluginState.STOPPED) == ()


def test_plugin_that_does_not_run_cannot_register_again() -> None:
    assert found(STARTED, REGISTERED, STOPPED, STARTED, state=PluginState.STOPPED) == ()
