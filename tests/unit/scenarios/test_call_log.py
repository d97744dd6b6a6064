"""What stubs and taps report about a plugin, kept for observations and written to the trace."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.backends.world.plugin_reports import CallLog
from scenarios.trace.events import PluginCalled, RegistrationAnswered
from scenarios.trace.snapshot import PluginState, PluginView
from scenarios.trace.trace import Trace

OPTIONS = {"called": "GetDevicePluginOptions", "devices": []}
ALLOCATE = {"called": "Allocate", "devices": ["a"]}
ACCEPTED = {"registered": "x/gpu", "endpoint": "p.sock", "error": ""}
REFUSED = {**ACCEPTED, "error": "no"}


@pytest.fixture
def trace() -> Trace:
    return Trace()


@pytest.fixture
def log(trace: Trace) -> CallLog:
    return CallLog("gpu", "node-1", trace)


def view(log: CallLog) -> PluginView:
    return PluginView("gpu", "node-1", PluginState.RUNNING, 0, 0, **log.view_fields)


def test_calls_are_counted_kept_in_order_and_recorded(log: CallLog, trace: Trace) -> None:
    for report in (OPTIONS, ALLOCATE, ALLOCATE):
        log.take(report)

    assert view(log).calls == {"GetDevicePluginOptions": 1, "Allocate": 2}
    assert view(log).call_log == ("GetDevicePluginOptions", "Allocate", "Allocate")
    assert [(event.kind, event.rpc, event.devices) for event in trace.of(PluginCalled)] == [
        ("plugin-called", "GetDevicePluginOptions", ()),
        ("plugin-called", "Allocate", ("a",)),
        ("plugin-called", "Allocate", ("a",)),
    ]


def test_register_is_counted_and_no_call_of_the_kubelet(log: CallLog, trace: Trace) -> None:
    assert [log.take(report) for report in (REFUSED, ACCEPTED, REFUSED)] == [False, True, False]

    assert (view(log).calls, view(log).call_log, view(log).refusal) == ({"Register": 3}, (), "no")
    assert [event.error for event in trace.of(RegistrationAnswered)] == ["no", "", "no"]


@pytest.mark.parametrize("report", [{"ready": True}, {"process": 2}])
def test_another_process_begins_a_log_of_its_own(log: CallLog, report: dict[str, Any]) -> None:
    log.take(OPTIONS)

    log.take(report)
    log.take(ALLOCATE)

    assert view(log).call_log == ("Allocate",)
    assert view(log).calls == {"GetDevicePluginOptions": 1, "Allocate": 1}


def test_connections_are_those_reported_last(log: CallLog, trace: Trace) -> None:
    for number in (1, 2, 1):
        log.take({"connections": number})

    assert view(log).connections == 1
    assert not list(trace)
