"""Feeds in: text of any origin, and streams that fail. Observed: what is printed, and which error a command gets."""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import sys
from typing import Any

import pytest
from hypothesis import example, given

from simkubelet._internal.output import Output, is_unread, one_line, printable, standard_streams, visible
from simkubelet.model.errors import HostError, UnreadError
from tests.support.obeyed import ANY_TEXT, WORKFLOW_COMMAND, is_harmless


@given(ANY_TEXT)
def test_visible_text_has_nothing_that_is_obeyed(text: str) -> None:
    shown = visible(text)

    assert is_harmless(shown)
    assert visible(shown) == shown


@given(ANY_TEXT.filter(lambda text: "\\" not in text))
def test_escapes_can_be_read_back(text: str) -> None:
    escapes = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|[nr])")

    assert escapes.sub(lambda found: codecs.decode(found[0], "unicode_escape"), one_line(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b]0;title\a", r"\x1b]0;title\x07", id="title"),
        pytest.param("\x9b2Jgone", r"\x9b2Jgone", id="C1"),
        pytest.param("gpu\u202e0-upg\u202c", r"gpu\u202e0-upg\u202c", id="bidi"),
        pytest.param("new\rold\b\b\b\0", r"new\rold\x08\x08\x08\x00", id="overwritten"),
        pytest.param("caf\udce9", r"caf\udce9", id="file-name"),
        pytest.param("Grüße, 世界 🇩🇪 👩‍🔬\n\tж", "Grüße, 世界 🇩🇪 👩‍🔬\n\tж", id="text"),
    ],
)
def test_control_character_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(ANY_TEXT)
@example("\n  ::error::x")
@example(" \x0b::error::x")
@example("###[error]x")
def test_printed_text_has_no_workflow_command(text: str) -> None:
    shown = printable(text)

    assert not WORKFLOW_COMMAND.search(shown)
    assert is_harmless(shown)
    assert printable(shown) == shown
    assert one_line(text) == shown.replace("\n", "\\n")


def test_line_has_an_end() -> None:
    line = one_line("\x1b" * 1_000_000)

    assert len(line) < 20_000
    assert line.endswith("… (1000000 characters) …" + 500 * "\\x1b")


def failing(number: int) -> io.StringIO:
    class Failing(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError(number, os.strerror(number))

        def flush(self) -> None:
            self.write("")

        def fileno(self) -> int:
            return self.descriptor

    stream: Any = Failing()
    stream.descriptor = os.open(os.devnull, os.O_WRONLY)
    return stream


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.EPIPE, UnreadError), (errno.ENOSPC, HostError), (errno.EBADF, HostError)],
)
def test_stream_that_fails_is_an_error_once(number: int, error: type[Exception]) -> None:
    output = Output(failing(number), is_needed=True)

    output.write("")
    with pytest.raises(error) as raised:
        output.write("text")
    output.write("more")
    output.flush()

    assert output.error is raised.value


@pytest.mark.parametrize(("number", "is_needed"), [(errno.EIO, True), (errno.EPIPE, False), (errno.ENOSPC, False)])
def test_closed_terminal_and_standard_error_are_no_errors(number: int, is_needed: bool) -> None:
    output = Output(failing(number), is_needed=is_needed)

    output.flush()
    output.write("more")

    assert output.error is None


def test_standard_streams_escape_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    below = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", below)

    with standard_streams():
        print("é \x1b[2J ─")
        sys.stdout.flush()

    assert sys.stdout is below
    assert below.buffer.getvalue() == b"\\xe9 \\x1b[2J \\u2500\n"  # type: ignore[attr-defined]


def test_missing_stream_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)

    with standard_streams():
        print("nobody reads this")
        assert sys.stdin.read() == ""
        assert not sys.stdin.isatty()


def test_pipe_without_a_reader_is_noticed(capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    before = os.dup(1)
    try:
        os.dup2(writer, 1)
        assert not is_unread()
        os.close(reader)
        assert is_unread()
    finally:
        os.dup2(before, 1)
        os.close(before)
        os.close(writer)
    assert not is_unread()
