"""The lines of a verdict about two backends, as columns and lanes."""

from __future__ import annotations

import pytest

from scenarios.play.comparison import compare
from scenarios.play.normal_form import Line
from scenarios.report import messages
from scenarios.report.differences import Difference, Row, differences, lane_of
from scenarios.report.messages import FAULTS, Lane


def test_what_a_comparison_found_stands_in_two_columns() -> None:
    started, exited = Line("plugin-started life=1", 0), Line("plugin-exited status=1", 1)
    running, pending = Line("pod-status phase=Running", 2), Line("pod-status phase=Pending", 2)
    divergence = compare(
        {"plugin a on node-1": (started,), "pod b": (running,)},
        {"plugin a on node-1": (started, exited), "pod b": (pending,)},
        ("sim", "kind"),
    )

    assert divergence is not None
    assert differences(divergence.lines) == (
        Difference("plugin a on node-1", ("sim", "kind"), (Row(started.text, started.text), Row("", exited.text))),
        Difference("pod b", ("sim", "kind"), (Row(running.text, pending.text),)),
    )


def test_lines_that_look_like_a_header_are_lines() -> None:
    divergence = compare({"pod a": (Line("-- x", 0),)}, {"pod a": (Line("++ y", 0),)}, ("sim", "kind"))

    assert divergence is not None
    (one,) = differences(divergence.lines)
    assert one.rows == (Row("-- x", "++ y"),)


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        ("pod a", messages.pod("a")),
        ("events of pod a", messages.pod("a")),
        ("devices of pod a", messages.pod("a")),
        ("plugin mine on node-1", messages.plugin("node-1", "mine")),
        ("calls of mine on node-1", messages.plugin("node-1", "mine")),
        ("answers to mine on node-1", messages.plugin("node-1", "mine")),
        ("registrations of example.com/gpu on node-1", messages.kubelet("node-1")),
        ("kubelet of node-1", messages.kubelet("node-1")),
        ("node node-1", messages.kubelet("node-1")),
        ("story", FAULTS),
    ],
)
def test_difference_belongs_to_a_lane_of_the_timeline(lane: str, expected: Lane) -> None:
    assert lane_of(Difference(lane, ("sim", "kind"), ())) == expected
