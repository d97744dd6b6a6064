"""What two backends recorded differently, read from the lines of a verdict: two columns, and the lanes it concerns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Final

from . import messages
from .messages import FAULTS, Lane

_ON_A_NODE: Final = re.compile(r"(?:plugin|calls of|answers to) (?P<plugin>.+) on (?P<node>\S+)")
_KUBELET: Final = re.compile(r"(?:registrations of .+ on|kubelet of|node) (?P<node>\S+)")
_POD: Final = re.compile(r"(?:(?:events|devices) of )?pod (?P<pod>\S+)")


@dataclass(frozen=True, slots=True)
class Row:
    """A line in both columns; empty where that backend did not record it."""

    first: str
    second: str

    @property
    def differs(self) -> bool:
        """Whether only one backend recorded it."""
        return self.first != self.second


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs in one lane of the comparison: the names of the backends, and the lines of both."""

    lane: str
    names: tuple[str, str]
    rows: tuple[Row, ...]


def differences(lines: Iterable[str]) -> tuple[Difference, ...]:
    """Read what a verdict has: a lane's name, and below it the indented lines of a unified diff with its header."""
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        if not line.startswith("  "):
            blocks.append((line, []))
        elif blocks:
            blocks[-1][1].append(line[2:])
    return tuple(_difference(lane, diff) for lane, diff in blocks)


def _difference(lane: str, diff: Sequence[str]) -> Difference:
    first, second = (header[4:] for header in diff[:2])
    rows: list[Row] = []
    for sign, group in groupby(diff[2:], key=lambda line: line[0] in "-+"):
        lines = list(group)
        if not sign:
            rows += [Row(line[1:], line[1:]) for line in lines]
            continue
        removed, added = ([line[1:] for line in lines if line[0] == one] for one in "-+")
        rows += [Row(*pair) for pair in zip_longest(removed, added, fillvalue="")]
    return Difference(lane, (first, second), tuple(rows))


def lane_of(difference: Difference) -> Lane:
    """The lane of a timeline that a difference is about."""
    name = difference.lane
    if found := _POD.fullmatch(name):
        return messages.pod(found["pod"])
    if found := _ON_A_NODE.fullmatch(name):
        return messages.plugin(found["node"], found["plugin"])
    if found := _KUBELET.fullmatch(name):
        return messages.kubelet(found["node"])
    return FAULTS
