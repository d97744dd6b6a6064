"""The file of a campaign: what it keeps, what it refuses, and where a campaign goes on."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.campaign.player import Played
from scenarios.campaign.results import Results
from scenarios.campaign.shrinker import Shrunk
from simkubelet.model.errors import HostError, InputError

Play = Callable[..., Played]


@pytest.fixture
def ended(file: Path) -> Path:
    """The file of a campaign that has ended, before it had played anything."""
    with Results(file, 7, 0):
        return file


def test_opened_again_it_goes_on_with_its_seed_and_what_is_missing(file: Path, play: Play) -> None:
    with Results(file, 7, 0) as results:
        results.add([play(0), play(1), play(4)])

    with Results(file, None, 99) as again:
        assert (again.seed, again.count) == (7, 3)
        assert list(again.missing(6)) == [2, 3, 5]
        assert list(islice(again.missing(None), 4)) == [2, 3, 5, 6]


@given(played=st.sets(st.integers(0, 30)), most=st.integers(0, 35))
def test_every_story_is_either_played_or_missing(played: set[int], most: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Results(Path(folder, "file"), 7, 0) as results:
        results.add([Played(number, "passed", "", 3, 0.1, 0.0) for number in played])

        assert list(results.missing(most)) == sorted(set(range(most)) - played)


def test_story_that_comes_twice_counts_once_as_it_came_first(results: Results, play: Play) -> None:
    results.add([play(3)])
    results.add([play(3, reason="now it fails"), play(4)])

    assert results.count == 2
    assert results.outcomes() == {"passed": 2}
    assert results.findings() == []


def test_batch_that_is_interrupted_leaves_nothing(results: Results, play: Play) -> None:
    def interrupted() -> Iterator[Played]:
        yield play(0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results.add(interrupted())

    assert results.count == 0
    results.add([play(0)])
    assert results.count == 1


def test_failures_with_the_same_signature_are_one_finding(results: Results, play: Play) -> None:
    results.add([play(2, "red-1 in p1 and in p3"), play(1), play(5, "blue-0 in p2 and in s4"), play(8, "another")])

    frequent, rare = results.findings()

    assert (frequent.count, frequent.number, frequent.reason, frequent.shrunk) == (2, 2, "red-1 in p1 and in p3", None)
    assert (rare.count, rare.number, rare.reason) == (1, 8, "another")


def test_smallest_story_stays_with_its_finding(file: Path, play: Play) -> None:
    shrunk = Shrunk("seed-7-story-2", "name: seed-7-story-2\n", 2, is_repeated=True)
    with Results(file, 7, 0) as results:
        results.add([play(2, "red-1 in p1 and in p3")])
        results.add_finding(results.findings()[0].signature, shrunk)

    with Results(file, 7, 0) as again:
        (finding,) = again.findings()

    assert finding.shrunk == shrunk


def test_another_seed_for_the_file_is_refused(ended: Path) -> None:
    with pytest.raises(InputError, match=r"has a campaign with seed 7; continue it without --seed, or name another"):
        Results(ended, 8, 0)


def test_file_that_is_no_database_is_refused(file: Path) -> None:
    file.write_text("a shopping list, which is long enough to be looked at\n" * 20)

    with pytest.raises(InputError, match="is no file of a campaign"):
        Results(file, None, 0)


@pytest.mark.parametrize("table", ["shopping (what TEXT)", "stories (title TEXT)", "campaign (party TEXT)"])
def test_database_of_another_program_is_refused_and_stays_as_it_is(file: Path, table: str) -> None:
    with sqlite3.connect(file) as other:
        other.execute(f"CREATE TABLE {table}")
    other.close()
    before = file.read_bytes()

    with pytest.raises(InputError, match=r"has tables of something else|is no file of a campaign"):
        Results(file, None, 0)

    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TRIGGER t AFTER INSERT ON stories BEGIN DELETE FROM findings; END",
        "CREATE VIEW v AS SELECT * FROM stories",
        "CREATE INDEX i ON stories (abs(number))",
        "DROP TABLE findings; CREATE TABLE findings (signature, name, text, steps, is_repeated)",
    ],
)
def test_file_with_something_that_runs_is_refused(ended: Path, change: str) -> None:
    with sqlite3.connect(ended) as other:
        other.executescript(change)
    other.close()

    with pytest.raises(InputError, match="has tables of something else"):
        Results(ended, None, 0)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE campaign SET seed = 'x'",
        "UPDATE stories SET number = -1",
        "UPDATE stories SET outcome = 'won'",
        "UPDATE stories SET reason = x'00'",
        "UPDATE stories SET steps = 'many'",
        "UPDATE stories SET steps = 1000000000",
        "UPDATE stories SET duration_s = 9e999",
        "UPDATE stories SET played_at = 1e18",
        "UPDATE stories SET signature = x'ff'",
        "UPDATE findings SET name = '../outside'",
        "UPDATE findings SET name = '/outside'",
        "UPDATE findings SET name = 'a' || char(0)",
        "UPDATE findings SET name = x'61'",
        "UPDATE findings SET text = x'61'",
        "UPDATE findings SET steps = 'many'",
        "UPDATE findings SET is_repeated = 'yes'",
    ],
)
def test_file_with_values_of_another_form_is_refused(file: Path, play: Play, change: str) -> None:
    with Results(file, 7, 0) as results:
        results.add([play(0, "it fails")])
        results.add_finding(results.findings()[0].signature, Shrunk("seed-7-story-0", "", 2, is_repeated=True))
    with sqlite3.connect(file) as other:
        other.execute(change)
    other.close()

    with pytest.raises(InputError, match="has values of another form"):
        Results(file, None, 0)


def test_text_that_is_no_text_is_shown_with_marks_in_its_place(file: Path, play: Play) -> None:
    with Results(file, 7, 0) as results:
        results.add([play(0, "it fails")])
    with sqlite3.connect(file) as other:
        other.execute("UPDATE stories SET reason = CAST(x'61ff' AS TEXT)")
    other.close()

    with Results(file, None, 0) as again:
        assert [one.reason for one in again.findings()] == ["a\N{REPLACEMENT CHARACTER}"]


def test_second_campaign_on_the_file_is_refused_and_the_first_goes_on(results: Results, file: Path, play: Play) -> None:
    with pytest.raises(InputError, match=r"^--results: another campaign goes on in .*; wait for it, or name another"):
        Results(file, None, 0)

    results.add([play(0)])
    assert results.count == 1


def test_campaign_killed_while_it_made_its_file_begins_again(file: Path) -> None:
    with sqlite3.connect(file) as begun:
        begun.execute("CREATE TABLE campaign (format TEXT NOT NULL, seed INTEGER NOT NULL)")
    begun.close()

    with Results(file, None, 99) as results:
        assert (results.seed, results.count) == (99, 0)


def test_file_of_another_version_is_refused(ended: Path) -> None:
    with sqlite3.connect(ended) as other:
        other.execute("UPDATE campaign SET format = 'simkubelet campaign 9'")
    other.close()

    with pytest.raises(InputError, match="is of another version or kind of campaign"):
        Results(ended, None, 0)


def test_full_disk_is_not_the_files_fault(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(results: Results, seed: int | None, default_seed: int) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Results, "_prepare", full)

    with pytest.raises(HostError, match=r"^--results: .* cannot be written: database or disk is full; make room or"):
        Results(file, None, 0)


def test_file_in_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        Results(tmp_path / "missing" / "campaign.sqlite", None, 0)


def test_link_to_nothing_is_refused_and_nothing_is_made_behind_it(tmp_path: Path) -> None:
    link = tmp_path / "c.sqlite"
    link.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(InputError, match="is a link to nothing"):
        Results(link, None, 0)

    assert list(tmp_path.iterdir()) == [link]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for place in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match="is no file"):
            Results(place, None, 0)


def test_file_on_a_full_disk_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(HostError, match="cannot be opened: No space left on device"):
        Results(tmp_path / "c.sqlite", None, 1)
