"""Metrics from CSV files, given back."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fakegpu import InputError, Machine
from fakegpu.machine import gpus as gpus_module
from fakegpu.machine.trace import choose_trace, read_traces
from fakegpu.state import layout

RECORDED = """\
timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W], temperature.gpu, clocks.gr [MHz], pstate
2026/02/01 12:00:00.000, 0, 10 %, 1000 MiB, 100.00 W, 40, 500 MHz, P0
2026/02/01 12:00:00.000, 1, 0 %, 0 MiB, 70.00 W, 30, 345 MHz, P2
2026/02/01 12:00:10.000, 0, 90 %, 3000 MiB, 600.00 W, 60, 1980 MHz, P0
2026/02/01 12:00:10.000, 1, [N/A], 0 MiB, 72.00 W, 31, 345 MHz, P2
"""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "monday.csv"
    path.write_text(RECORDED)
    return path


def began(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = time.monotonic_ns()
    clock = SimpleNamespace(monotonic_ns=lambda: now - round(seconds * 1e9))
    monkeypatch.setattr(gpus_module, "time", clock)


def test_rows_of_each_gpu_are_a_trace(recorded: Path) -> None:
    traces = read_traces(recorded)

    assert list(traces) == ["0", "1"]
    first, last = traces["0"].frames
    assert (first.time_ms, last.time_ms) == (0, 10_000)
    assert (last.gpu_percent, last.memory_used_bytes, last.power_mw, last.gpu_c) == (90, 3000 << 20, 600_000, 60)
    assert last.energy_mj == 1_000_000
    assert traces["1"].frames[1].performance_state == 2


def test_replay_goes_straight_between_rows(machine: Machine, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began(monkeypatch, 5)

    machine.replay(0, recorded)

    state = machine._segment.read_live(0)
    assert state.utilization.gpu_percent == pytest.approx(50, abs=5)
    assert state.memory.used_bytes == pytest.approx(2000 << 20, rel=0.1)
    assert state.thermal.gpu_c == pytest.approx(50, abs=2)


def test_last_row_stays(machine: Machine, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began(monkeypatch, 5000)

    machine.replay(0, recorded)

    assert machine._segment.read_live(0).utilization.gpu_percent == 90


def test_loop_begins_again(machine: Machine, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began(monkeypatch, 100_001)

    machine.replay(0, recorded, loop=True)

    assert machine._segment.read_live(0).utilization.gpu_percent < 60


def test_rows_of_the_same_index_are_taken(machine: Machine, recorded: Path) -> None:
    machine.replay(1, recorded)

    assert machine._segment.read_live(1).thermal.gpu_c == 30
    with pytest.raises(InputError, match="no rows of GPU 2; it has 0, 1"):
        machine.replay(2, recorded)


def test_only_trace_fits_every_gpu(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("timestamp,utilization.gpu\n0,5\n1.5,6\n")

    trace = choose_trace(read_traces(path), 3, "GPU-x", "one.csv")

    assert [frame.time_ms for frame in trace.frames] == [0, 1500]
    assert trace.topics == layout.LIVE_UTILIZATION


def test_what_has_no_column_stays_as_set(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text("timestamp,power.draw\n0,300\n")
    machine.set(0, "temperature", 44)

    machine.replay(0, path)

    state = machine._segment.read_live(0)
    assert state.power.usage_mw == 300_000
    assert state.thermal.gpu_c == 44


def test_long_recording_is_thinned(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("timestamp,utilization.gpu\n" + "".join(f"{row},{row % 100}\n" for row in range(5000)))

    (trace,) = read_traces(path).values()

    assert len(trace.frames) == layout.FRAMES_MAX
    assert (trace.frames[0].time_ms, trace.frames[-1].time_ms) == (0, 4_999_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: no column 'timestamp'"),
        ("timestamp,name\n0,x\n", ":1: no column to replay"),
        ("timestamp,utilization.gpu\n", "no rows"),
        ("timestamp,utilization.gpu\n0,5\nsoon,6\n", ":3: timestamp 'soon'"),
        ("timestamp,utilization.gpu\n0,much\n", ":2: utilization.gpu='much': not a number"),
        ("timestamp,utilization.gpu\n0\n", ":2: 1 values for 2 columns"),
        ("timestamp,utilization.gpu\n0,[N/A]\n", "no figure to replay"),
        ("timestamp,utilization.gpu\nnan,5\n", ":2: timestamp 'nan': out of range"),
        ("timestamp,utilization.gpu\n1e300,5\n", ":2: timestamp '1e300': out of range"),
        ("timestamp,utilization.gpu\n0,70000\n", ":2: utilization.gpu='70000': out of range"),
        (f"timestamp,utilization.gpu\n0,{'9' * 5000}\n", ": out of range"),
        (f"timestamp,utilization.gpu\n0,{'9' * 200_000}\n", ": not text"),
    ],
)
def test_wrong_file_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(text)

    with pytest.raises(InputError, match="wrong") as told:
        read_traces(path)

    assert message in str(told.value)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_traces(tmp_path / "nothing.csv")


def test_file_that_is_not_text_is_reported(tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(InputError, match="not UTF-8 text"):
        read_traces(tmp_path / "bytes.csv")
