"""``nvidia-smi -q``: everything about each GPU, as a tree of lines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

import pynvml

from . import report_figures, report_identity
from .devices import Selected
from .reading import Tree, bus_id, cuda_version

_VALUE_COLUMN: Final = 42
_INDENT: Final = 4

DISPLAYS: Final[dict[str, tuple[str, ...]]] = {
    "MEMORY": ("FB Memory Usage", "BAR1 Memory Usage", "Conf Compute Protected Memory Usage"),
    "UTILIZATION": ("Utilization",),
    "ECC": ("ECC Mode", "ECC Errors"),
    "TEMPERATURE": ("Temperature",),
    "POWER": ("GPU Power Readings", "Module Power Readings"),
    "CLOCK": (
        "Clocks",
        "Applications Clocks",
        "Default Applications Clocks",
        "Deferred Clocks",
        "Max Clocks",
        "Max Customer Boost Clocks",
        "Clock Policy",
    ),
    "COMPUTE": ("Compute Mode",),
    "PIDS": ("Processes",),
    "PERFORMANCE": ("Performance State", "Clocks Event Reasons", "Sparse Operation Mode"),
    "PAGE_RETIREMENT": ("Retired Pages",),
    "ENCODER_STATS": ("Encoder Stats",),
    "FBC_STATS": ("FBC Stats",),
    "ROW_REMAPPER": ("Remapped Rows",),
    "VOLTAGE": ("Voltage",),
}
"""What ``-d`` can choose, and the parts of the report that each shows."""


def lines(gpus: Selected, displays: Iterable[str] | None = None) -> Iterator[str]:
    """The report, all of it or the parts that ``displays`` names."""
    shown = None if displays is None else {part for name in displays for part in DISPLAYS[name]}
    yield ""
    yield "==============NVSMI LOG=============="
    yield ""
    yield _line(0, "Timestamp", time.ctime())
    yield _line(0, "Driver Version", pynvml.nvmlSystemGetDriverVersion())
    yield _line(0, "CUDA Version", cuda_version())
    yield ""
    yield _line(0, "Attached GPUs", str(pynvml.nvmlDeviceGetCount()))
    for _, handle in gpus:
        yield f"GPU {bus_id(handle)}"
        tree = [*report_identity.tree(handle), *report_figures.tree(handle)]
        yield from _walk([entry for entry in tree if shown is None or entry[0] in shown], 1)
        yield ""


def _walk(tree: Tree, depth: int) -> Iterator[str]:
    for label, content in tree:
        if isinstance(content, str):
            yield _line(depth, label, content)
        else:
            yield f"{' ' * _INDENT * depth}{label}"
            yield from _walk(content, depth + 1)


def _line(depth: int, label: str, value: str) -> str:
    return f"{f'{chr(32) * _INDENT * depth}{label}':<{_VALUE_COLUMN}}: {value}"
