"""Metrics over time, read from a CSV file such as nvidia-smi writes, as frames to give back.

Columns carry the names of ``nvidia-smi --query-gpu=…``, with or without units behind them (``power.draw [W]``), in any
order; values may carry units as well (``312.40 W``). ``timestamp`` says when, as nvidia-smi writes it or in seconds.
Rows of several GPUs are distinguished by ``index``, ``uuid`` or ``pci.bus_id``. What has no column, or no number in it,
is not replayed: it stays as it is set.

Source: columns, their short names and units: ``nvidia-smi --help-query-gpu`` (535).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from ..errors import InputError
from ..profiles.document import read_document
from ..state import layout

_UNIT: Final = re.compile(r"\s*\[[^\]]*\]$")
_NUMBER: Final = re.compile(r"\s*P?(-?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%/]*)\s*")
_TIME_FORMATS: Final = ("%Y/%m/%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f", "%Y/%m/%d %H:%M:%S")
_GPU_COLUMNS: Final = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
_MIB: Final = 1 << 20
_LATEST_S: Final = 1e11


@dataclass(frozen=True, slots=True)
class _Column:
    """Where the number of a column goes: member of a frame, factor to its unit, and the topic that it makes live."""

    member: str
    factor: float
    topic: int


_COLUMNS: Final[dict[str, _Column]] = {
    "utilization.gpu": _Column("gpu_percent", 1, layout.LIVE_UTILIZATION),
    "utilization.memory": _Column("memory_percent", 1, layout.LIVE_UTILIZATION),
    "utilization.encoder": _Column("encoder_percent", 1, layout.LIVE_UTILIZATION),
    "utilization.decoder": _Column("decoder_percent", 1, layout.LIVE_UTILIZATION),
    "memory.used": _Column("memory_used_bytes", _MIB, layout.LIVE_MEMORY),
    "power.draw": _Column("power_mw", 1000, layout.LIVE_POWER),
    "power.draw.instant": _Column("power_mw", 1000, layout.LIVE_POWER),
    "temperature.gpu": _Column("gpu_c", 1, layout.LIVE_THERMAL),
    "temperature.memory": _Column("memory_c", 1, layout.LIVE_THERMAL),
    "clocks.gr": _Column("graphics_mhz", 1, layout.LIVE_CLOCKS),
    "clocks.current.graphics": _Column("graphics_mhz", 1, layout.LIVE_CLOCKS),
    "clocks.mem": _Column("memory_mhz", 1, layout.LIVE_CLOCKS),
    "clocks.current.memory": _Column("memory_mhz", 1, layout.LIVE_CLOCKS),
    "pstate": _Column("performance_state", 1, layout.LIVE_CLOCKS),
    "fan.speed": _Column("fan_percent", 1, layout.LIVE_FANS),
}
# A topic follows the recording where this member of it is recorded; the rest of the topic alone would say nonsense.
_MAIN: Final = {
    layout.LIVE_UTILIZATION: "gpu_percent",
    layout.LIVE_MEMORY: "memory_used_bytes",
    layout.LIVE_POWER: "power_mw",
    layout.LIVE_THERMAL: "gpu_c",
    layout.LIVE_CLOCKS: "graphics_mhz",
    layout.LIVE_FANS: "fan_percent",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """Metrics of one GPU over time.

    Attributes:
        frames: in the order of time, the first at zero, at most ``layout.FRAMES_MAX``.
        topics: mask of ``layout.LIVE_*``: what the trace has figures of.
    """

    frames: Sequence[layout.Frame]
    topics: int


def read_traces(path: Path) -> dict[str, Trace]:
    """The traces of a CSV file by the GPU that its rows name: an index, a UUID or a PCI address; "" where they do not.

    Raises:
        InputError: the file cannot be read, has no time or no figure, or a value is no number; names the line.
    """
    try:
        return _read(io.StringIO(read_document(str(path)), newline=""), str(path))
    except csv.Error:
        raise InputError(f"{path}: not text") from None


def choose_trace(traces: Mapping[str, Trace], index: int, uuid: str, where: str) -> Trace:
    """The trace of one GPU: the only one there is, or the one with its index or UUID.

    Raises:
        InputError: the rows are of other GPUs.
    """
    if len(traces) == 1:
        return next(iter(traces.values()))
    for name in (str(index), uuid):
        if name in traces:
            return traces[name]
    raise InputError(f"{where}: no rows of GPU {index}; it has {', '.join(traces)}")


def _read(file: Iterable[str], where: str) -> dict[str, Trace]:
    reader = csv.reader(file, skipinitialspace=True)
    header = [_UNIT.sub("", name.strip()) for name in next(reader, [])]
    if "timestamp" not in header:
        raise InputError(
            f"{where}:1: no column 'timestamp'; `nvidia-smi --query-gpu=timestamp,… --format=csv` writes one"
        )
    if not any(name in _COLUMNS for name in header):
        raise InputError(f"{where}:1: no column to replay; there are {', '.join(_COLUMNS)}")
    rows: dict[str, list[tuple[float, dict[str, float]]]] = {}
    for values in reader:
        if not values:
            continue
        place = f"{where}:{reader.line_num}"
        row = dict(zip(header, values, strict=False))
        if len(values) < len(header):
            raise InputError(f"{place}: {len(values)} values for {len(header)} columns")
        gpu = next((row[name].strip() for name in _GPU_COLUMNS if name in row), "")
        rows.setdefault(gpu, []).append((_seconds(row["timestamp"], place), _figures(row, place)))
    if not rows:
        raise InputError(f"{where}: no rows below the names of the columns")
    return {gpu: _trace(found, where) for gpu, found in rows.items()}


def _seconds(text: str, place: str) -> float:
    text = text.strip()
    with suppress(ValueError):
        seconds = float(text if text.isascii() and "_" not in text else "")
        if not 0 <= seconds <= _LATEST_S:
            raise InputError(f"{place}: timestamp '{text}': out of range, 0 to {_LATEST_S:g} seconds")
        return seconds
    for pattern in _TIME_FORMATS:
        try:
            return datetime.strptime(text, pattern).timestamp()
        except ValueError:
            continue
    raise InputError(f"{place}: timestamp '{text}': neither seconds nor a time such as 2026/02/01 12:00:00.000")


def _figures(row: Mapping[str, str], place: str) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, text in row.items():
        column = _COLUMNS.get(name)
        if column is None or text.strip().strip("[]") in {"N/A", "Not Supported", ""}:
            continue
        number = _NUMBER.fullmatch(text)
        if number is None:
            raise InputError(f"{place}: {name}='{text}': not a number")
        figure = max(float(number.group(1)), 0) * column.factor
        if figure >= 1 << 8 * getattr(layout.Frame, column.member).size:
            raise InputError(f"{place}: {name}='{text}': out of range")
        figures[column.member] = figure
    return figures


def _trace(rows: Sequence[tuple[float, dict[str, float]]], where: str) -> Trace:
    ordered = sorted(rows, key=lambda row: row[0])
    recorded = set[str]().union(*(figures for _, figures in ordered))
    topics = sum(topic for topic, member in _MAIN.items() if member in recorded)
    if topics == 0:
        raise InputError(f"{where}: no figure to replay in its rows")
    frames: list[layout.Frame] = []
    figures: dict[str, float] = {}
    energy_j, before_s = 0.0, ordered[0][0]
    for at_s, found in ordered:
        energy_j += figures.get("power_mw", 0) / 1000 * (at_s - before_s)
        before_s = at_s
        figures |= found
        frames.append(_frame(at_s - ordered[0][0], figures, energy_j))
    return Trace(_thinned(frames), topics)


def _frame(at_s: float, figures: Mapping[str, float], energy_j: float) -> layout.Frame:
    frame = layout.Frame()
    frame.time_ms = min(round(at_s * 1000), (1 << 32) - 1)
    frame.energy_mj = round(energy_j * 1000)
    for member, number in figures.items():
        setattr(frame, member, round(number))
    return frame


def _thinned(frames: Sequence[layout.Frame]) -> list[layout.Frame]:
    """As many frames as there is room for, evenly taken, with the first and the last."""
    room = layout.FRAMES_MAX
    if len(frames) <= room:
        return list(frames)
    return [frames[index * (len(frames) - 1) // (room - 1)] for index in range(room)]
