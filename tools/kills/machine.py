"""The commands of `fakegpu` killed in the middle: each change is done or it is not, and the next command works.

The journal has what commands have confirmed for each GPU. A command that was killed leaves what was before it or what
is after it, in its GPU alone. Only `unplug` and `plug` have two steps, a GPU's state and its files; what a kill leaves
of them the next of these commands finishes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fakegpu import Machine

from .forked import Program
from .journal import Journal

_PROFILE: Final = "t4"
_SET, _ALSO_SET, _LOADED, _PLUGGED = range(4)
"""The GPUs of the machine by what is done to them."""
_XIDS: Final = (13, 31, 48, 63, 74, 79, 94)
_FIRST_S: Final = 0.2
_LONGER: Final = 1.2
"""Kills are drawn from a command's usual time and a little more: some commands end before."""
_SHARE_OF_DOWN: Final = 0.08


@dataclass(frozen=True, slots=True)
class _Gpu:
    """What is looked at of a GPU."""

    xid: int | None
    is_lost: bool
    temperature_c: int
    memory_bytes: int
    has_node: bool


_Gpus = tuple[_Gpu, ...] | None
"""Those of a machine; None where there is none."""


@dataclass(frozen=True, slots=True)
class _Command:
    """A command, and the GPUs that it leaves."""

    words: tuple[object, ...]
    after: _Gpus
    is_two_steps: bool = False


class _Machine:
    """A machine in a folder, what is expected of it, and the next command."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder / "machine"
        self._chance = chance
        self.expected: _Gpus = None
        self.new: tuple[_Gpu, ...] = ()

    def look(self) -> _Gpus:
        """All GPUs as they are now; None where there is no machine, and nothing in its place."""
        if not self.folder.exists():
            return None
        machine = Machine.open(self.folder)
        try:
            return tuple(
                _Gpu(
                    one.last_xid,
                    one.is_lost,
                    # Under load it changes with time.
                    0 if one.index == _LOADED else one.temperature_c,
                    one.memory_used_bytes,
                    (machine.dev / f"nvidia{one.minor}").exists(),
                )
                for one in machine.gpus
            )
        finally:
            machine.close()

    def next_command(self) -> _Command:
        """Draw a command."""
        if self.expected is None:
            return _Command(("up", "--profile", _PROFILE, "-n", len(self.new) or 4, "--seed", "kills"), self.new)
        if self._chance.random() < _SHARE_OF_DOWN:
            return _Command(("down",), None)
        index = self._chance.randrange(len(self.expected))
        words, after = self._change(index, self.expected[index])
        gpus = (*self.expected[:index], after, *self.expected[index + 1 :])
        return _Command(words, gpus, is_two_steps=index == _PLUGGED)

    def _change(self, index: int, gpu: _Gpu) -> tuple[tuple[object, ...], _Gpu]:
        memory_gib, draw = self._chance.randint(1, 14), self._chance.random()
        memory = memory_gib << 30
        if index == _PLUGGED:
            is_out = not gpu.has_node
            after = replace(gpu, is_lost=not is_out, has_node=is_out)
            return ("plug" if is_out else "unplug", index), after
        if index == _LOADED:
            if draw < 1 / 3:
                return ("load", index, "--stop"), replace(gpu, memory_bytes=0)
            load = ("load", index, "--utilization", 50, "--memory", f"{memory_gib}GiB")
            return load, replace(gpu, memory_bytes=memory)
        if draw < 0.4:
            celsius = self._chance.randint(20, 60)
            words = ("set", index, f"temperature={celsius}", f"memory_used={memory_gib}GiB")
            return words, replace(gpu, temperature_c=celsius, memory_bytes=memory)
        if draw < 0.6 or (gpu.is_lost and draw < 0.8):
            return ("heal", index), replace(gpu, xid=None, is_lost=False)
        if draw < 0.8:
            xid = self._chance.choice(_XIDS)
            return ("fail", index, "--xid", xid), replace(gpu, xid=xid)
        return ("fail", index, "--lost"), replace(gpu, is_lost=True)


def kill_commands(kills: int, chance: random.Random, folder: Path, journal: Journal) -> None:
    """Kill so many commands; those that end before they are killed are on top."""
    machine = _Machine(folder, chance)
    _end_first(machine, folder, journal)
    usual_s: dict[object, float] = {}
    while journal.kills < kills:
        command, before = machine.next_command(), machine.expected
        verb = command.words[0]
        with _started(command.words, machine.folder, folder) as program:
            if program.wait_until(program.began + usual_s.get(verb, _FIRST_S) * chance.uniform(0, _LONGER)) is None:
                program.kill()
            # It may have ended just before.
            status = program.wait()
        took_s, is_killed = time.monotonic() - program.began, status < 0
        usual_s[verb] = usual_s.get(verb, _FIRST_S) * 1.1 if is_killed else (usual_s.get(verb, took_s) + took_s) / 2
        machine.expected = machine.look()
        journal.kills += is_killed
        journal.acknowledged += not is_killed
        journal.found_done += is_killed and machine.expected == command.after
        if status > 0:
            journal.lose(f"{_text(command)} ends with {status}: {program.end_of_log()}")
        elif not _may_be(machine.expected, before, command, is_killed):
            journal.lose(
                f"{_text(command)}, {'killed' if is_killed else 'ended'}: before {before}, after {machine.expected}"
            )


def _may_be(seen: _Gpus, before: _Gpus, command: _Command, is_killed: bool) -> bool:
    """Whether a machine is as a command leaves it, or where that was killed as it found it."""
    if not is_killed:
        return seen == command.after
    if command.is_two_steps:
        return seen is not None and before is not None and seen[:_PLUGGED] == before[:_PLUGGED]
    return seen in (before, command.after)


def _text(command: _Command) -> str:
    return " ".join(map(str, command.words))


def _end_first(machine: _Machine, folder: Path, journal: Journal) -> None:
    """Make the first machine, which shows what a new one is."""
    with _started(machine.next_command().words, machine.folder, folder) as program:
        if program.wait() != 0:
            journal.lose(program.end_of_log())
    journal.acknowledged += 1
    machine.new = machine.expected = machine.look() or ()


def _started(words: Sequence[object], directory: Path, folder: Path) -> Program:
    return Program("fakegpu", [*words, "--dir", directory], folder / "command.log")
