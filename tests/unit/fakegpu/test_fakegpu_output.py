"""Feeds in: profiles of strangers, and text of any origin. Observed: what ``fakegpu`` prints."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import given

import fakegpu.output
import simkubelet._internal.output
from fakegpu.profiles.profile import profile_text
from tests.support.machines import run
from tests.support.obeyed import ANY_TEXT, is_harmless

ODD = "[red]T4[/] ##[error]x"
"""A name that a profile may have: of its ASCII rich would make colours, and a CI system a command."""


@given(ANY_TEXT)
def test_text_is_escaped_as_by_simkubelet(text: str) -> None:
    assert fakegpu.output.printable(text) == simkubelet._internal.output.printable(text)
    assert fakegpu.output.one_line(text) == simkubelet._internal.output.one_line(text)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "odd.yaml"
    path.write_text(profile_text("t4").replace("name: Tesla T4", f'name: "{ODD}"'))
    return path


def test_names_of_a_profile_are_escaped(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = profile.parent / "node"
    status, made, _ = run(capsys, "up", "--profile", profile, "-n", "1", "--dir", place)
    listed = run(capsys, "list", "--dir", place)[1]

    assert status == 0
    for text in (made, listed):
        assert r"[red]T4[/] \x23#[error]x" in text


def test_profile_is_printed_byte_for_byte_into_a_pipe(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile.write_text(f"{profile.read_text()}# \u202e ##[error]x\n")
    below = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", below)

    assert fakegpu.cli.main.main(["profiles", str(profile)]) == 0

    below.flush()
    assert below.buffer.getvalue() == profile.read_bytes()  # type: ignore[attr-defined]


@pytest.mark.parametrize("arguments", [["list", "--dir", "a\nb\x1b[2J"], ["nope\n\u202e"], ["fail", "a\n", "--lost"]])
def test_error_is_one_line_whatever_it_quotes(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, printed, complaint = run(capsys, *arguments)

    assert (status, printed) == (2, "")
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert is_harmless(complaint)
