"""Signals at any moment of a command of `fakegpu`: no traceback, the documented status, and nothing half done."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from fakegpu import Machine
from tests.support.signalled import accesses, signalled

MOMENTS = 4
SIGNALS = [
    pytest.param((signal.SIGINT, signal.SIGINT), id="INT twice"),
    pytest.param((signal.SIGTERM, signal.SIGINT), id="TERM and INT"),
    pytest.param((signal.SIGHUP,), id="HUP"),
]


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("numbers", SIGNALS)
def test_signalled_up_makes_a_whole_machine_or_none(tmp_path: Path, numbers) -> None:
    count = accesses("fakegpu", "up", "--profile", "t4", "-n", 1, "--dir", "whole", folder=tmp_path)
    whole = {path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*")}

    for turn in range(MOMENTS):
        node = tmp_path / f"node-{turn}"
        node.mkdir()
        at = count * turn // MOMENTS
        ended = signalled(
            "fakegpu", "up", "--profile", "t4", "-n", 1, "--dir", "m", at=at, numbers=numbers, folder=node
        )

        assert (ended.returncode, ended.stdout, ended.stderr) in {(128 + number, "", "") for number in numbers}, at
        made = node / "m"
        assert left_in(node) == ({"m"} if made.exists() else set()), at
        assert not made.exists() or {path.relative_to(made) for path in made.rglob("*")} == whole, at


@pytest.mark.parametrize("numbers", SIGNALS)
def test_signalled_down_removes_all_of_a_machine_or_nothing(tmp_path: Path, numbers) -> None:
    make = ("up", "--profile", "t4", "-n", 1, "--dir", "m")
    accesses("fakegpu", *make, folder=tmp_path)
    count = accesses("fakegpu", "down", "--dir", "m", folder=tmp_path)

    for turn in range(MOMENTS):
        node = tmp_path / f"node-{turn}"
        node.mkdir()
        accesses("fakegpu", *make, folder=node)
        whole = {path.relative_to(node) for path in node.rglob("*")}
        at = count * turn // MOMENTS
        ended = signalled("fakegpu", "down", "--dir", "m", at=at, numbers=numbers, folder=node)

        assert (ended.returncode, ended.stderr) in {(128 + number, "") for number in numbers}, at
        assert {path.relative_to(node) for path in node.rglob("*")} in (whole, set()), at


def test_interrupted_comparison_leaves_no_machine(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with closing(Machine.create(tmp_path / "m", "t4", 1)) as machine:
        count = accesses("fakegpu", "diff", "t4", folder=scratch, **machine.environment())

        for turn in range(MOMENTS):
            at = count * turn // MOMENTS
            numbers = (signal.SIGTERM,)
            ended = signalled("fakegpu", "diff", "t4", at=at, numbers=numbers, folder=scratch, **machine.environment())

            assert (ended.returncode, ended.stderr) == (128 + signal.SIGTERM, ""), at
            assert left_in(scratch) == set(), at
