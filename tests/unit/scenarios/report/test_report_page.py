"""The page as text: what is in it, what must not be, and how large it gets."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from scenarios.evaluation.mismatch import Mismatch
from scenarios.evaluation.verdict import Failure, Outcome, Verdict
from scenarios.report.page import Reported, html, write_report
from scenarios.trace.events import PluginExited, StepStarted
from scenarios.trace.trace import Entry
from simkubelet.model.events import DevicesListed
from tests.support.obeyed import ANY_TEXT, is_harmless

EVIL = "</script><script>alert(1)</script><b>&'\""


def recording(count: int = 40, text: str = "a step") -> tuple[Entry, ...]:
    ids = tuple(f"GPU-{number:032}" for number in range(8))
    events = (StepStarted(1, text), PluginExited("mine", "node-1", 1, text), DevicesListed("node-1", "r", ids, ()))
    return tuple(Entry(seq, seq * 1.25, events[seq % 3], seq * 0.015625) for seq in range(count))


def page(*stories: Reported) -> str:
    return html(stories, "simkubelet run", 2.5, datetime(2026, 1, 2, 3, 4, tzinfo=UTC))


def test_story_has_verdict_reason_place_and_values() -> None:
    mismatch = Mismatch(("steps", 4, "expect", "allocatable"), "7", "8")
    diagnosis = "kubelet.sock was recreated"
    failure = Failure("x.yaml:31", "GPU falls off", (mismatch,), (), "waited 9 s (within: 3s)", 5, 6, (diagnosis,))
    log = Path("logs/mine.log")
    failed = Verdict(
        "x",
        Outcome.INVALID,
        1.5,
        "allocatable: expected 7",
        failure,
        logs=(log,),
        log_ends={log: ("no socket\x07",)},
        kubernetes="1.34",
        repeat="simkubelet run x.yaml",
    )

    text = page(Reported(failed, "What x is about", {"sim": recording()}, ("Restart it",)))

    for expected in ("FAILED", "x.yaml:31", "step 5 of 6: GPU falls off", "steps[4].expect.allocatable", "waited 9 s"):
        assert expected in text
    for expected in ("on Kubernetes 1.34", diagnosis, "logs/mine.log", ">no socket\\x07\n", "simkubelet run x.yaml"):
        assert expected in text
    for expected in ("1.50 s", "What x is about", "Restart it", "2026-01-02 03:04 UTC", "1 story in 2.5 s"):
        assert expected in text


@settings(max_examples=25)
@given(ANY_TEXT)
@example("\ufffe\x00\ud800\u202e")
def test_page_has_no_control_characters_of_what_it_shows(text: str) -> None:
    log = Path(f"logs/{text.replace(chr(0), '')}")
    failure = Failure(f"{text}:1", text, (Mismatch((text,), text, text),), (), text, 1, 2, (text,))
    verdict = Verdict(
        text, Outcome.INVALID, 0.1, text, failure, logs=(log,), log_ends={log: (text,)}, kubernetes=text, repeat=text
    )
    listed = DevicesListed(text, text, (text, "gpu-0"), (text,))
    events = (StepStarted(1, text), PluginExited(text, text, 1, text), listed)
    trace = tuple(Entry(seq, 0.0, event, 0.0) for seq, event in enumerate(events))

    shown = page(Reported(verdict, text, {text: trace}, (text,)))

    assert is_harmless(shown)
    (data,) = re.findall('<script type="application/json"[^>]*>(.*?)</script>', shown)
    assert is_harmless(json.dumps(json.loads(data), ensure_ascii=False))


def test_story_that_failed_before_its_first_step_says_so() -> None:
    failed = Verdict("x", Outcome.UNKNOWN, 0.1, "disk is full", Failure("x.yaml:1", "start", (), ()))

    assert "while its world was made" in page(Reported(failed))


def test_differences_of_two_backends_stand_side_by_side() -> None:
    lines = ("pod a", "  --- sim", "  +++ kind", "  -pod-status phase=Running", "  +pod-status phase=Pending")
    verdict = Verdict("x", Outcome.INVALID, 1.0, "the traces differ", difference=lines)

    text = page(Reported(verdict, "", {"sim": recording(), "kind": recording()}))

    assert re.search(r'class="differs">\s*<td><code>pod-status phase=Running</code></td>', text)
    assert [one["name"] for one in data(text)] == ["sim", "kind"]


def data(text: str) -> list[dict[str, object]]:
    found = re.search(r'<script type="application/json" id="data-1">(.*?)</script>', text, re.DOTALL)
    assert found
    loaded: list[dict[str, object]] = json.loads(found[1])
    return loaded


def test_texts_of_a_plugin_cannot_leave_their_place() -> None:
    verdict = Verdict(EVIL, Outcome.UNKNOWN, 0.0, EVIL, Failure(EVIL, EVIL, (), ()), logs=(Path("<i>"),), repeat=EVIL)

    text = page(Reported(verdict, EVIL, {"sim": recording(text=EVIL)}, (EVIL,)))

    assert "<script>alert" not in text
    assert "<b>&'" not in text
    assert json.dumps(EVIL)[1:-1] in json.dumps(data(text)[0]["moments"])


def test_page_names_no_address() -> None:
    text = page(Reported(Verdict("x", Outcome.VALID, 0.1), "", {"sim": recording()}))

    addresses = set(re.findall(r"https?://[^\"' ]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'; base-uri 'none'; form-action 'none'" in text
    assert not re.search(r"<link|<img|<iframe|@import|url\(|src=", text)


def test_bytes_that_are_no_text_do_not_stop_a_report(tmp_path: Path) -> None:
    verdict = Verdict("x", Outcome.INVALID, 0.1, "said \udc80")

    written = write_report(tmp_path, [Reported(verdict, "", {"sim": recording(text="\udc80")})], 1.0)

    assert r"said \udc80" in written.read_text(encoding="utf-8")


def test_two_hundred_stories_stay_under_five_megabytes() -> None:
    story = Reported(Verdict("a-story", Outcome.VALID, 0.5), "What it is about", {"sim": recording(90)})

    assert len(page(*[story] * 200).encode()) < 5_000_000


def test_endless_story_is_bounded() -> None:
    story = Reported(Verdict("a-story", Outcome.INVALID, 0.5), "", {"sim": recording(20_000, "x" * 10_000)})

    assert len(page(story).encode()) < 2_000_000


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_folder_that_cannot_be_is_an_error_of_its_path(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(NotADirectoryError):
        write_report(tmp_path / path, [], 0.0)


def test_missing_folders_are_made(tmp_path: Path) -> None:
    assert write_report(tmp_path / "a" / "b", [], 0.0) == tmp_path / "a" / "b" / "index.html"
    assert write_report(tmp_path / "a" / "b", [], 0.0).exists()


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_has_a_sign_and_a_filter(outcome: Outcome) -> None:
    text = page(Reported(Verdict("x", outcome, 0.0)))

    assert f'value="{outcome.word}" checked' in text
    assert text.count(f"> {outcome.word}") == 2
