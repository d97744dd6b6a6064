"""What stubs and taps report of a plugin, kept for observations and told to the trace."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.backends.world.call_log import CallBook
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
def book(trace: Trace) -> CallBook:
    return CallBook("gpu", "node-1", trace)


def view(book: CallBook) -> PluginView:
    return PluginView("gpu", "node-1", PluginState.RUNNING, 0, 0, *book.told)


def test_calls_are_counted_kept_in_order_and_told(book: CallBook, trace: Trace) -> None:
    for report in (OPTIONS, ALLOCATE, ALLOCATE):
        book.take(report)

    assert view(book).calls == {"GetDevicePluginOptions": 1, "Allocate": 2}
    assert view(book).call_log == ("GetDevicePluginOptions", "Allocate", "Allocate")
    assert [(event.kind, event.fields["rpc"], event.fields["devices"]) for event in trace] == [
        ("plugin-called", "GetDevicePluginOptions", ()),
        ("plugin-called", "Allocate", ("a",)),
        ("plugin-called", "Allocate", ("a",)),
    ]


def test_register_is_counted_and_no_call_of_the_kubelet(book: CallBook, trace: Trace) -> None:
    assert [book.take(report) for report in (REFUSED, ACCEPTED, REFUSED)] == [False, True, False]

    assert (view(book).calls, view(book).call_log, view(book).refusal) == ({"Register": 3}, (), "no")
    assert [event.fields["error"] for event in trace] == ["no", "", "no"]


@pytest.mark.parametrize("report", [{"ready": True}, {"process": 2}])
def test_another_process_begins_a_log_of_its_own(book: CallBook, report: dict[str, Any]) -> None:
    book.take(OPTIONS)

    book.take(report)
    book.take(ALLOCATE)

    assert view(book).call_log == ("Allocate",)
    assert view(book).calls == {"GetDevicePluginOptions": 1, "Allocate": 1}


def test_connections_are_those_told_last(book: CallBook, trace: Trace) -> None:
    for number in (1, 2, 1):
        book.take({"connections": number})

    assert view(book).connections == 1
    assert not list(trace)
