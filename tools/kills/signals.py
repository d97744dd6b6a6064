"""Commands that get signals at random moments, one or two, alone or with all processes of their group.

Each is started as a user starts it. It ends with the status of a signal or as it would have ended; no traceback, no
process, no folder and no half of a machine is left of it. Before a command has a handler of its own Python starts, and
how that ends is Python's.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .campaign import MARK, marked, wait_for
from .journal import Journal

_STUB: Final = (sys.executable, "-m", "plugin", "stub", "--resource", "example.com/gpu", "--device", "gpu-0")
_MACHINE: Final = "machine"
_FIRST: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGPIPE)
_THEN: Final = (signal.SIGINT, signal.SIGTERM)
_GOES_ON: Final = frozenset({signal.SIGTSTP, signal.SIGPIPE})
"""What ends no command: it is continued, and another signal follows."""
_AGAIN_S: Final = 0.3
_STARTS_WITHIN_S: Final = 60.0
_ENDS_WITHIN_S: Final = 180.0
_LOOK_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class _Command:
    """A command, how long it may run before its signal, and what it may leave in its folder."""

    words: tuple[str, ...]
    lives_s: float
    leaves: frozenset[str] = frozenset()
    needs_machine: bool = False


_MAKE: Final = ("fakegpu", "up", "--profile", "t4", "-n", "2", "--dir", _MACHINE)
_COMMANDS: Final = (
    _Command(_MAKE, 0.6, frozenset({_MACHINE})),
    _Command(("simkubelet", "up", "--profile", "t4", "--nodes", "2", "--plugin", f"mine={' '.join(_STUB)}"), 6.0),
    _Command(("fakegpu", "down", "--dir", _MACHINE), 0.4, frozenset({_MACHINE}), needs_machine=True),
    _Command(("simkubelet", "run", "--tag", "sharing", "--junit", "r.xml", "-n", "3"), 6.0, frozenset({"r.xml"})),
    _Command(
        ("simkubelet", "campaign", "--seed", "1", "-n", "2", "--stories", "400"),
        10.0,
        frozenset({"campaign.sqlite", "campaign.sqlite-shm", "campaign.sqlite-wal", "campaign-findings"}),
    ),
    _Command(("simkubelet", "conform", "--", *_STUB), 6.0),
    _Command(("simkubelet", "clean"), 0.6),
    _Command(("fakegpu", "exec", "--dir", _MACHINE, "true"), 0.4, frozenset({_MACHINE}), needs_machine=True),
)


def signal_commands(kills: int, chance: random.Random, folder: Path, journal: Journal) -> None:
    """Start so many commands and send them signals."""
    while journal.kills < kills:
        command = _COMMANDS[journal.kills % len(_COMMANDS)]
        place = folder / str(journal.kills)
        place.mkdir(mode=0o700)
        _signal(command, place, chance, journal)
        journal.kills += 1


def _signal(command: _Command, place: Path, chance: random.Random, journal: Journal) -> None:
    env = {**os.environ, "TMPDIR": str(place), "XDG_RUNTIME_DIR": str(place), MARK: str(place)}
    if command.needs_machine:
        subprocess.run(_argv(_MAKE), cwd=place, env=env, check=True, stdout=subprocess.DEVNULL)
    log = place.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            _argv(command.words),
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    sent = _send(process, command.lives_s, chance)
    about = f"{' '.join(command.words[:2])} after {' and '.join(number.name for number in sent) or 'no signal'}"
    try:
        status = process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        journal.lose(f"{about} goes on")
        process.kill()
        status = process.wait()
    said = log.read_text(encoding="utf-8", errors="replace")
    if status not in {0, 1, *(128 + number for number in sent)}:
        journal.lose(f"{about} ends with {status}: {said[-500:]}")
    if "Traceback" in said or "Exception ignored" in said:
        journal.lose(f"{about} shows a traceback: {said[-500:]}")
    wait_for(lambda: not list(marked(place)))
    journal.lose_each(f"{about}: process {pid} is left" for pid in marked(place))
    # The folder of clusters stays.
    left = {path.name for path in place.iterdir()} - command.leaves - {"simkubelet"}
    journal.lose_each(f"{about}: {name} is left" for name in sorted(left))
    journal.acknowledged += status >= 128
    journal.found_done += status < 128


def _argv(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", *words]


def _send(process: subprocess.Popen[bytes], lives_s: float, chance: random.Random) -> list[signal.Signals]:
    """Send a signal in so many seconds, and in half of all cases another one, while it runs; return those sent."""
    to: Callable[[int, int], None] = chance.choice((os.kill, os.killpg))
    drawn, sent = [chance.choice(_FIRST)], list[signal.Signals]()
    if drawn[0] in _GOES_ON or chance.random() < 1 / 2:
        drawn.append(chance.choice(_THEN))
    moment, pause_s = chance.uniform(0, lives_s), chance.choice((0.0, chance.uniform(0, _AGAIN_S)))
    limit = time.monotonic() + _STARTS_WITHIN_S
    while process.poll() is None and not _has_handler(process.pid) and time.monotonic() < limit:
        time.sleep(_LOOK_S)
    _rest(process, moment)
    for number in drawn:
        if process.poll() is not None:
            break
        to(process.pid, number)
        if number is signal.SIGTSTP:
            to(process.pid, signal.SIGCONT)
        sent.append(number)
        _rest(process, pause_s)
    return sent


def _rest(process: subprocess.Popen[bytes], duration_s: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(duration_s)


def _has_handler(pid: int) -> bool:
    """Whether a process has a handler of SIGTERM, field SigCgt of /proc/PID/status."""
    status: Mapping[str, str] = {}
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
        status = dict(line.split(":", 1) for line in lines if ":" in line)
    return bool(int(status.get("SigCgt", "0"), 16) >> (signal.SIGTERM - 1) & 1)
