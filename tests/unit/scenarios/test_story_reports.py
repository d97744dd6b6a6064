from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given

from scenarios.evaluation.mismatch import Mismatch, shown
from scenarios.evaluation.verdict import Failure, Outcome, Verdict
from scenarios.play.failure import entry_line, failure_lines
from scenarios.play.junit import junit_xml
from scenarios.trace.events import FaultInjected, StepStarted
from scenarios.trace.trace import Trace
from simkubelet.model.events import EventRecorded, NodeStatusUpdated
from tests.support.obeyed import ANY_TEXT, is_harmless


@pytest.fixture
def failed() -> Verdict:
    trace = Trace(now=lambda: 0.0, real=lambda: 0.0)
    trace.append(StepStarted(5, "GPU falls off"))
    trace.append(FaultInjected("node-1", "GPU-1", 79))
    mismatch = Mismatch(("expect", "allocatable", "nvidia.com/gpu"), "7", "8")
    failure = Failure(
        "stories/x.yaml:31",
        "GPU falls off",
        (mismatch,),
        tuple(trace),
        "waited 9.10 s (within: 3s)",
        number=5,
        total=9,
        diagnoses=("plugin 'nvidia' exited",),
    )
    log = Path("/tmp/sk-1/node-1/logs/plugins/nvidia.log")
    return Verdict(
        "x",
        Outcome.INVALID,
        1.5,
        "allocatable: expected 7; actual 8",
        failure,
        logs=(log,),
        log_ends={log: ("starting", "no GPU")},
        path=Path("stories/x.yaml"),
        kubernetes="1.34",
        repeat="simkubelet run stories/x.yaml",
    )


@pytest.fixture
def verdicts(failed: Verdict) -> list[Verdict]:
    return [
        Verdict("fine", Outcome.VALID, 0.25),
        failed,
        Verdict("wrong", Outcome.ERROR, 0.0, "it runs already"),
        Verdict("dark", Outcome.UNKNOWN, 0.5, "no \x1b[31mspace"),
        Verdict("far", Outcome.SKIPPED, 0.0, "the backend cannot restart a kubelet"),
    ]


def test_failure_shows_all_that_is_known_of_it(failed: Verdict) -> None:
    assert failure_lines(failed) == (
        "stories/x.yaml:31: FAILED on Kubernetes 1.34 in step 5 of 9, 'GPU falls off'",
        "  expect.allocatable[nvidia.com/gpu]",
        "    expected  7",
        "    actual    8",
        "  waited 9.10 s (within: 3s)",
        "  diagnosis: plugin 'nvidia' exited",
        "  what happened around it, in node time and real time:",
        "       0     0.000 s    0.000 s  step-started          step=5 title='GPU falls off'",
        "       1     0.000 s    0.000 s  fault-injected        node=node-1 gpu=GPU-1 xid=79",
        "  /tmp/sk-1/node-1/logs/plugins/nvidia.log ends with:",
        "    starting",
        "    no GPU",
        "  repeat it: simkubelet run stories/x.yaml",
    )


def test_story_ended_by_an_error_tells_the_reason() -> None:
    verdict = Verdict("x", Outcome.UNKNOWN, 0.1, "disk is full", Failure("x.yaml:1", "start", (), ()))

    assert failure_lines(verdict) == ("x.yaml:1: UNKNOWN while its world was made", "  disk is full")


def test_difference_of_two_worlds_is_shown_as_a_diff() -> None:
    lines = ("pod a", "  --- sim", "  +++ kind", "  +container-exited")
    verdict = Verdict("x", Outcome.INVALID, 1.0, "the traces differ first in 'pod a'", difference=lines)

    assert failure_lines(verdict) == (
        "x: the traces differ first in 'pod a'",
        "  pod a",
        "    --- sim",
        "    +++ kind",
        "    +container-exited",
    )


def test_entry_line_quotes_texts_and_leaves_out_what_is_empty() -> None:
    trace = Trace(now=lambda: 0.0)
    trace.append(EventRecorded("p", "Warning", "Failed", "two words", ""))
    trace.append(NodeStatusUpdated("n", {"a": 1, "b": 0}, {}))

    assert entry_line(trace[0]).endswith("event                 pod=p type=Warning reason=Failed message='two words'")
    assert entry_line(trace[1]).endswith("node-status           node=n capacity={a: 1, b: 0}")


def test_junit_says_how_to_fix_what_the_machine_lacks() -> None:
    verdict = Verdict("a", Outcome.SKIPPED, 0.0, "this machine cannot run", remedies=("bwrap not found: install it",))

    (skipped,) = ElementTree.fromstring(junit_xml([verdict])).iter("skipped")  # noqa: S314  # our own output

    assert (skipped.get("message"), skipped.text) == ("this machine cannot run", "bwrap not found: install it")


def test_junit_counts_and_tells_each_story(verdicts: list[Verdict]) -> None:
    root = ElementTree.fromstring(junit_xml(verdicts))  # noqa: S314  # our own output

    suite = root[0]
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "skipped", "time")} == {
        "name": "simkubelet",
        "tests": "5",
        "failures": "1",
        "errors": "2",
        "skipped": "1",
        "time": "2.250",
    }
    assert [(case.get("name"), [child.tag for child in case]) for case in suite] == [
        ("fine", []),
        ("x", ["properties", "failure", "system-out"]),
        ("wrong", ["error"]),
        ("dark", ["error"]),
        ("far", ["skipped"]),
    ]
    (failure,) = suite.iter("failure")
    assert (failure.get("type"), failure.get("message")) == ("FAILED", "allocatable: expected 7; actual 8")
    assert "stories/x.yaml:31" in (failure.text or "")
    assert [case[-1].get("type") for case in suite[2:]] == ["ERROR", "UNKNOWN", "SKIPPED"]
    assert suite[3][0].get("message") == r"no \x1b[31mspace"


@given(ANY_TEXT)
@example("\ufffe\uffff\x00\ud800")
def test_junit_can_be_read_whatever_it_says(text: str) -> None:
    log = Path(f"logs/{text.replace(chr(0), '')}")
    failure = Failure(f"{text}:1", text, (Mismatch((text,), text, text),), (), text, 1, 2, (text,))
    verdict = Verdict(
        text, Outcome.INVALID, 0.1, text, failure, logs=(log,), log_ends={log: (text,)}, path=log, kubernetes=text
    )
    skipped = Verdict(text, Outcome.SKIPPED, 0.1, text, remedies=(text,))

    xml = junit_xml([verdict, skipped])

    cases = list(ElementTree.fromstring(xml).iter("testcase"))  # noqa: S314  # our own output
    assert [[child.tag for child in case][-1] for case in cases] == ["system-out", "skipped"]
    assert is_harmless(xml.decode())


def test_junit_has_place_version_and_log(failed: Verdict) -> None:
    fine = Verdict("fine", Outcome.VALID, 0.25, path=Path("fine.yaml"), kubernetes="1.26, 1.34")

    first, second = ElementTree.fromstring(junit_xml([failed, fine])).iter("testcase")  # noqa: S314  # our own output

    assert (first.get("file"), first.get("line")) == ("stories/x.yaml", "31")
    assert [child.tag for child in first] == ["properties", "failure", "system-out"]
    assert first.findtext("system-out") == "/tmp/sk-1/node-1/logs/plugins/nvidia.log:\nstarting\nno GPU"
    assert (second.get("file"), second.get("line")) == ("fine.yaml", "1")
    assert [one.attrib for one in second.iter("property")] == [{"name": "kubernetes", "value": "1.26, 1.34"}]


def test_of_a_long_list_the_first_items_are_shown_and_how_many_there_are() -> None:
    assert shown({"a": [1, [2, 3]]}) == "a: [1, [2, 3]]"
    assert shown(list(range(64))).endswith(", 63]")
    assert shown(tuple(range(10_240))) == "[0, 1, 2, 3, 4, 5, 6, 7, ... (10240 in all)]"
    assert shown(dict.fromkeys(range(100), "x")).endswith("7: x, ... (100 in all)")
