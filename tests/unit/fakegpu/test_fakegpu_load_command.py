"""``fakegpu load``, ``fakegpu smi`` and the programs of a driver that are made from it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fakegpu import Machine
from fakegpu.cli.main import main
from fakegpu.machine import mps
from fakegpu.smi.__main__ import main as smi


def test_load_is_given_to_all(machine: Machine) -> None:
    assert main(["load", "all", "--utilization", "40", "--memory", "5GiB", "--dir", str(machine.directory)]) == 0

    states = [machine._segment.read_live(gpu) for gpu in range(4)]
    assert [state.utilization.gpu_percent for state in states] == [40] * 4
    assert [state.memory.used_bytes for state in states] == [5 << 30] * 4


def test_load_is_stopped(machine: Machine) -> None:
    machine_option = ["--dir", str(machine.directory)]
    assert main(["load", "2", *machine_option]) == 0
    assert machine._segment.read_live(2).utilization.gpu_percent == 100

    assert main(["load", "2", "--stop", *machine_option]) == 0

    assert machine._segment.read_live(2).utilization.gpu_percent == 0


def test_recording_is_replayed(machine: Machine, tmp_path: Path) -> None:
    recording = tmp_path / "recording.csv"
    recording.write_text("timestamp,utilization.gpu\n0,33\n")

    assert main(["load", "0", "--replay", str(recording), "--dir", str(machine.directory)]) == 0

    assert machine._segment.read_live(0).utilization.gpu_percent == 33


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0", "--utilization", "120"], "utilization=120: out of range, 0 to 100 percent"),
        (["0", "--utilization", "NaN"], "'NaN' is not a valid float"),
        (["0", "--memory", "lots"], "--memory lots: write a number of bytes, or one with KiB, MiB or GiB"),
        (["9"], "no GPU 9"),
        (["0", "--stop", "--utilization", "3"], "exclude each other"),
        (["0", "--loop"], "--loop goes with --replay"),
        (["0", "--replay", "nothing.csv"], "nothing.csv: No such file"),
        (["0", "--pattern", "wild"], "'wild'"),
        (["0", "--for", "10", "--pattern", "wave"], "a load that ends is steady"),
        (["0", "--room", "5000"], "room=5000: out of range"),
    ],
)
def test_wrong_load_is_one_line(
    machine: Machine, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    status = main(["load", *arguments, "--dir", str(machine.directory)])

    complaint = capsys.readouterr().err
    assert status == 2
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert message in complaint


@pytest.mark.parametrize(
    ("program", "arguments"),
    [(smi, ["--help"]), (smi, ["topo", "--help"]), (smi, ["mig", "--help"]), (mps.main, ["--help"])],
)
def test_help_of_programs_of_a_driver_is_plain(
    program: Callable[[Sequence[str]], int],
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    with contextlib.suppress(SystemExit):
        program(arguments)

    printed = capsys.readouterr().out
    assert printed.startswith("usage: ")
    assert "\x1b" not in printed
