"""Files that options name: what they replace, what they leave alone, and an error that names option and path."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from scenarios.play import run
from scenarios.play.interruption import run_interruptibly
from scenarios.report import written
from scenarios.report.written import JUNIT, TRACE, make_place, written_for
from simkubelet.model.errors import HostError, InputError

STORY = "steps:\n- expect: {node: node-1, capacity: {nvidia.com/gpu: 8}, within: 1s}\n"
OUTPUTS = [
    pytest.param("--junit", "junit.xml", "JUnit XML", id="junit"),
    pytest.param("--trace", "trace.jsonl", "a trace", id="trace"),
    pytest.param("--report", "index.html", "a page of simkubelet", id="report"),
]


def given(option: str, file: Path) -> list[Path | str]:
    return [option, file.parent if option == "--report" else file]


@pytest.mark.parametrize(("option", "name", "kind"), OUTPUTS)
def test_file_of_the_user_is_refused_before_anything_starts(
    option: str, name: str, kind: str, tmp_path: Path, run_cli: Any, write_story: Any, played: Any
) -> None:
    file = tmp_path / "out" / name
    file.parent.mkdir()
    file.write_text("<!doctype html>\nmy diary")

    result = run_cli("run", write_story(STORY), *given(option, file))

    reason = f"it is there already and is not {kind}; move it away or choose another place"
    assert result == (2, "", f"error: {option}: '{file}' cannot be written: {reason}\n")
    assert (file.read_text(), played) == ("<!doctype html>\nmy diary", [])


@pytest.mark.parametrize(("option", "name", "kind"), OUTPUTS)
@pytest.mark.parametrize("before", ["its own", "empty"])
def test_file_of_its_own_kind_is_replaced(
    option: str, name: str, kind: str, before: str, tmp_path: Path, run_cli: Any, write_story: Any, played: Any
) -> None:
    file = tmp_path / "out" / name
    file.parent.mkdir()
    if before == "its own":
        run_cli("run", write_story(STORY), *given(option, file))
    else:
        file.touch()

    status, _, err = run_cli("run", write_story(STORY), *given(option, file))

    assert (status, err) == (0, "")
    assert file.stat().st_size > 0


def test_link_in_the_place_of_a_page_is_not_followed(
    tmp_path: Path, run_cli: Any, write_story: Any, played: Any
) -> None:
    run_cli("run", write_story(STORY), "--report", tmp_path / "one")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "index.html").symlink_to(tmp_path / "one" / "index.html")

    status, _, err = run_cli("run", write_story(STORY), "--report", tmp_path / "two")

    assert (status, "is there already and is not a page of simkubelet" in err) == (2, True)


@pytest.mark.parametrize("option", ["--junit", "--trace"])
def test_link_to_nothing_is_not_followed(
    option: str, tmp_path: Path, run_cli: Any, write_story: Any, played: Any
) -> None:
    file = tmp_path / "file"
    file.symlink_to(tmp_path / "absent")

    status, _, err = run_cli("run", write_story(STORY), option, file)

    reason = "it is a link to nothing; remove it or choose another place"
    assert (status, err) == (2, f"error: {option}: '{file}' cannot be written: {reason}\n")
    assert not (tmp_path / "absent").exists()


def test_path_of_too_many_names_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File name too long"):
        make_place(tmp_path.joinpath(*"a" * 1800), JUNIT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--junit", "--trace"])
def test_full_disk_names_option_and_path_after_the_results(
    option: str, tmp_path: Path, run_cli: Any, write_story: Any, played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"

    def fill(main: Coroutine[Any, Any, None]) -> None:
        run_interruptibly(main)
        # What the end of the run writes does not fit any more.
        file.unlink()
        file.symlink_to("/dev/full")

    monkeypatch.setattr(run, "run_interruptibly", fill)

    status, out, err = run_cli("run", write_story(STORY), option, file)

    assert (status, err) == (3, f"error: {option}: '{file}' cannot be written: No space left on device\n")
    assert "1 passed" in out


@pytest.mark.parametrize("option", ["--junit", "--trace"])
def test_pipe_is_written_to_its_reader(
    option: str, tmp_path: Path, run_cli: Any, write_story: Any, played: Any
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        status, _, err = run_cli("run", write_story(STORY), option, pipe)
        contents = reader.read()

    assert (status, err) == (0, "")
    assert {"--junit": JUNIT, "--trace": TRACE}[option].mark in contents
    assert b"before the story began" not in contents


@pytest.mark.parametrize("option", ["--junit", "--trace"])
@pytest.mark.parametrize("is_opened", [pytest.param(False, id="no reader"), pytest.param(True, id="reader that waits")])
def test_pipe_that_nobody_reads_is_given_up(
    option: str,
    is_opened: bool,
    tmp_path: Path,
    run_cli: Any,
    write_story: Any,
    played: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(written, "_PATIENCE_S", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK) if is_opened else None
    if reader is not None:
        with contextlib.suppress(BlockingIOError):
            while os.write(reader, bytes(4096)):
                pass

    result = run_cli("run", write_story(STORY), option, pipe)

    reason = "nobody has read from it for 0.2 s"
    assert (result[0], result[2]) == (2, f"error: {option}: '{pipe}' cannot be written: {reason}\n")
    if reader is not None:
        os.close(reader)


def test_pipe_in_the_place_of_a_page_is_left_alone(tmp_path: Path, run_cli: Any, write_story: Any, played: Any) -> None:
    os.mkfifo(tmp_path / "index.html")

    status, _, err = run_cli("run", write_story(STORY), "--report", tmp_path)

    assert (status, "is there already and is not a page of simkubelet" in err) == (2, True)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_error_that_names_no_file_is_known_by_the_options_value(reason: int) -> None:
    expected = f"^--report: 'results' cannot be written: {os.strerror(reason)}$"
    with pytest.raises(HostError, match=expected), written_for("--report", Path("results")):
        raise OSError(reason, os.strerror(reason))


def test_error_of_the_place_is_the_users() -> None:
    with pytest.raises(InputError, match=r"^--report: 'other' cannot be written: Permission denied$"):  # noqa: SIM117
        with written_for("--report", Path("results")):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "other")
