"""Written traces read again, and the simulator compared with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.play.job import Job, Options
from scenarios.play.recording import Compared, read_recordings, read_trace
from scenarios.story.document import load
from scenarios.story.stories import builtin
from scenarios.trace.trace import write_lines
from simkubelet.model.errors import InputError
from simkubelet.model.events import KubeletStarted
from tests.support.recorded import FAILS, PASSES, entries


def test_stories_are_read_in_the_order_of_the_file(two_stories: Path) -> None:
    assert read_trace(two_stories) == {"passes": PASSES, "fails": FAILS}
    assert list(read_trace(two_stories, ["fails"])) == ["fails"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "t.jsonl: no trace: the file is empty", id="empty"),
        pytest.param(b"\xff\xfe", "t.jsonl: cannot be read: 'utf-8' codec", id="bytes"),
        pytest.param(b"<html>" + b"x" * 500, "t.jsonl:1: no line of a trace: <html>xxx", id="no JSON"),
        pytest.param(b"\n", "t.jsonl:1: no line of a trace: an empty line", id="empty line"),
    ],
)
def test_file_that_is_no_trace_is_one_short_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)

    with pytest.raises(InputError) as refused:
        read_trace(path)

    assert complaint in str(refused.value)
    assert len(str(refused.value)) < len(str(tmp_path)) + 250


def test_unknown_story_and_missing_file_are_named(two_stories: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.jsonl: no story 'pases'; did you mean 'passes'\?"):
        read_trace(two_stories, ["pases"])
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        read_trace(tmp_path / "no")


def test_folder_has_the_stories_of_all_its_files(two_stories: Path) -> None:
    other = two_stories.parent / "topic" / "u.jsonl"
    other.parent.mkdir()
    with other.open("w") as stream:
        write_lines(PASSES, stream, "other")

    assert set(read_recordings(two_stories.parent)) == {"passes", "fails", "other"}


def test_folder_without_traces_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no traces: there is no file \*\.jsonl"):
        read_recordings(tmp_path)


@pytest.mark.parametrize("release", ["v1.34.7", None])
def test_recording_of_another_release_or_story_is_none(two_stories: Path, release: str | None) -> None:
    job = Job(load(builtin()["gopher-pending"]), Options())
    if release is not None:
        with two_stories.open("w") as stream:
            write_lines(entries(KubeletStarted("node-1", release)), stream, "gopher-pending")

    with pytest.raises(InputError, match="has no story of this run on its Kubernetes release; record one with: simkub"):
        Compared([job], two_stories)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000, "1" * 5_000, ""])
def test_line_that_is_deep_or_long_is_one_short_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "trace.jsonl").write_text(f"{content}\n")

    with pytest.raises(InputError, match="no line of a trace") as caught:
        read_trace(tmp_path / "trace.jsonl")

    assert len(str(caught.value)) < 400


def test_trace_without_an_end_is_refused() -> None:
    with pytest.raises(InputError, match="larger than 256 MiB"):
        read_trace(Path("/dev/zero"))
