"""A campaign under way, with workers that are this thread: what is handed out, what is kept, what ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.world.folders import new_folder
from scenarios.campaign.campaign import Campaign
from scenarios.campaign.player import Played
from scenarios.campaign.results import Results
from scenarios.campaign.shrinker import Shrunk
from scenarios.campaign.workers import Workers
from simkubelet.model.errors import HostError

Play = Callable[..., Played]


class ThisThread(Executor):
    def submit(self, function: Callable[..., Any], /, *values: Any, **_: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*values))
        except Exception as error:
            done.set_exception(error)
        return done


def campaign(results: Results, story: Play, most: int | None = None, **options: Any) -> tuple[Campaign, list[int]]:
    """A campaign in which every fourth story fails, and the numbers of those that are made small."""
    shrunk: list[int] = []

    def batch(seed: int, numbers: Sequence[int], folder: Path | None, is_own_process: bool) -> list[Played]:
        return [story(number, "" if number % 4 else f"red-{number} in p1") for number in numbers]

    def smallest(seed: int, number: int, signature: str, folder: Path | None, is_own_process: bool) -> Shrunk:
        shrunk.append(number)
        return Shrunk(f"seed-{seed}-story-{number}", "", 2, is_repeated=True)

    workers = Workers(ThisThread(), 2, is_local=True)
    given = {"play": batch, "shrink": smallest, **options}
    return Campaign(results, workers, lambda: None, most, **given), shrunk


def test_campaign_plays_each_story_once_and_makes_each_finding_small_once(results: Results, play: Play) -> None:
    results.add([play(3), play(7)])
    course, shrunk = campaign(results, play, most=100)

    course.run()
    again, shrunk_again = campaign(results, play, most=120)
    again.run()

    assert results.count == 120
    assert results.outcomes() == {"failed": 30, "passed": 90}
    assert [(one.count, one.number, one.shrunk is not None) for one in results.findings()] == [(30, 0, True)]
    assert (shrunk, shrunk_again) == ([0], [])


def test_campaign_whose_time_is_up_plays_nothing(results: Results, play: Play) -> None:
    course, shrunk = campaign(results, play, until=time.monotonic())

    course.run()

    assert (results.count, shrunk) == (0, [])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(BrokenProcessPool(), "a worker was killed", id="killed"),
        pytest.param(CancelledError(), "the scheduler is gone", id="scheduler"),
        pytest.param(OSError("no space\nat all"), "the workers cannot play: OSError: no space", id="other"),
    ],
)
def test_error_of_a_worker_ends_the_campaign_with_one_line(
    results: Results, play: Play, error: Exception, reason: str
) -> None:
    def failing(seed: int, numbers: Sequence[int], *_: Any) -> list[Played]:
        if 20 in numbers:
            raise error
        return [play(number) for number in numbers]

    course, _ = campaign(results, play, play=failing)

    with pytest.raises(HostError) as caught:
        course.run()

    assert str(caught.value) == f"{reason}; the results are kept: run the same command again to go on"


def test_folder_of_a_killed_campaign_is_removed_and_that_of_one_under_way_stays(
    results: Results, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = new_folder(tmp_path, "sk-camp-")
    (killed.path / "node-1").mkdir()
    killed.release()
    (tmp_path / "sk-camp-12345678" / "of the user").mkdir(parents=True)
    there: list[list[Path]] = []

    def beside_another(seed: int, numbers: Sequence[int], folder: Path | None, is_own_process: bool) -> list[Played]:
        assert folder is not None
        (folder / "node-1").mkdir(exist_ok=True)
        other, _ = campaign(results, play, until=time.monotonic())
        other.run()
        there.append(list(tmp_path.glob("sk-camp-*/node-1")))
        return [play(number) for number in numbers]

    course, _ = campaign(results, play, most=5, play=beside_another)

    course.run()

    assert [path.parent == killed.path for (path,) in there] == [False]
    assert list(tmp_path.glob("sk-camp-*/*")) == [tmp_path / "sk-camp-12345678" / "of the user"]
