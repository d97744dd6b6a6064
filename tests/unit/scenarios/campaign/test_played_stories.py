"""Stories of a campaign, played: verdicts, and what they leave behind; a leak is planted at the end of their world."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios.campaign import player
from scenarios.campaign.plan import Plan, pod_of
from scenarios.campaign.player import Played, play_batch
from scenarios.campaign.world import CampaignWorld

RED = "example.com/red"
STUB = {"name": "red", "builtin": "stub", "serves": {"resource": RED, "devices": [{"id": "red-0"}, {"id": "red-1"}]}}
TWO_PODS = Plan(
    ({"name": "node-1", "kubernetes": "1.34"},),
    (STUB,),
    ({"apply": pod_of("p1", {RED: 1})}, {"apply": pod_of("p2", {RED: 1})}),
    is_healed=False,
)
OPENED: list[int] = []

Leave = Callable[[], object]


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short path, as sockets are made below it."""
    with tempfile.TemporaryDirectory(prefix="sk-") as made:
        yield Path(made)


@pytest.fixture(autouse=True)
def every_plan_has_two_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "plan_of", lambda seed, number: TWO_PODS)


@pytest.fixture
def leave(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Leave], None]]:
    """Lets each world do something at its end."""
    at_end = CampaignWorld.__aexit__

    def plant(left: Leave) -> None:
        async def __aexit__(self: CampaignWorld, *error: Any) -> None:  # noqa: N807  # it takes the place of one
            await at_end(self, *error)
            left()

        monkeypatch.setattr(CampaignWorld, "__aexit__", __aexit__)

    yield plant
    while OPENED:
        os.close(OPENED.pop())


def forget_task() -> None:
    async def nobody_waits_for_it() -> None:
        await asyncio.Event().wait()

    asyncio.get_running_loop().forgotten = asyncio.create_task(nobody_waits_for_it())  # type: ignore[attr-defined]


def outcomes(played: list[Played]) -> dict[int, tuple[str, str]]:
    return {one.number: (one.outcome, one.reason) for one in played}


def test_stories_of_a_batch_pass_and_leave_nothing(folder: Path) -> None:
    played = play_batch(7, [3, 5, 8], folder, is_own_process=True)

    assert outcomes(played) == dict.fromkeys((3, 5, 8), ("passed", ""))
    assert list(folder.iterdir()) == []


def test_forgotten_task_is_a_failure(folder: Path, leave: Callable[[Leave], None]) -> None:
    leave(forget_task)

    played = play_batch(7, [3], folder, is_own_process=False)

    assert played[0].outcome == "failed"
    assert played[0].reason.endswith("nobody_waits_for_it")


def test_file_that_stays_open_is_a_failure_of_the_story_that_opened_it(
    folder: Path, leave: Callable[[Leave], None]
) -> None:
    def open_file() -> None:
        OPENED.append(os.open("/dev/null", os.O_RDONLY))

    leave(open_file)

    played = play_batch(7, [3, 5], folder, is_own_process=True)

    assert outcomes(played) == dict.fromkeys((3, 5), ("failed", "left behind: an open null"))


def test_leak_that_no_story_shows_alone_is_not_lost(folder: Path, leave: Callable[[Leave], None]) -> None:
    def open_once() -> None:
        if not OPENED:
            OPENED.append(os.open("/dev/null", os.O_RDONLY))

    leave(open_once)

    played = play_batch(7, [3, 5], folder, is_own_process=True)

    assert outcomes(played) == {3: ("failed", "left behind: an open null"), 5: ("passed", "")}


def test_file_in_a_storys_folder_is_a_failure(folder: Path, leave: Callable[[Leave], None]) -> None:
    leave(lambda: next(folder.iterdir()).joinpath("forgotten").touch())

    played = play_batch(7, [3], folder, is_own_process=False)

    assert outcomes(played) == {3: ("failed", "left behind: the folder of its nodes")}


def test_world_that_cannot_be_made_is_no_story_that_ended(folder: Path) -> None:
    deep = folder / ("long" * 25)
    deep.mkdir()

    played = play_batch(7, [3], deep, is_own_process=False)

    assert (played[0].outcome, played[0].signature) == ("unknown", "")
    assert "choose a folder with a shorter path" in played[0].reason
