"""Play random commands to both device managers by the thousand, counted in the file of a campaign.

Usage: python -m tests.oracle.campaign --results FILE [--sequences N] [--time S] [-n N] [--report DIR]

The sequences are those of `test_same_as_the_real_manager`, each made of the campaign's seed and its number alone. All
else is as with ``simkubelet campaign``: each sequence counts once, also after kill -9, and the same command goes on.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
import time
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, reject, seed, settings
from hypothesis.errors import FlakyFailure
from hypothesis.stateful import run_state_machine_as_test

from scenarios.campaign.campaign import Campaign
from scenarios.campaign.page import write_page
from scenarios.campaign.player import Played
from scenarios.campaign.results import Results
from scenarios.campaign.shrinker import Shrunk
from scenarios.campaign.workers import local_workers
from simkubelet.model.errors import HostError, SimkubeletError
from simkubelet.model.words import number_of
from tests.oracle.test_same_as_the_real_manager import STEPS, BothManagers
from tests.support.kubelet_sides import Programs, Sides

_COMMAND: Final = re.compile(r"\w+: \w+")
"""How a difference begins: who was asked, and what."""
_SHOW_EACH_S: Final = 10.0


class SequenceResults(Results):
    """The file of a campaign of sequences, which no campaign of stories goes on with."""

    format = "simkubelet oracle campaign 1"


def play_sequences(campaign: int, numbers: Sequence[int], directory: Path | None, is_own_process: bool) -> list[Played]:
    """Play some sequences of a campaign; see `scenarios.campaign.player.play_batch`."""
    return [_play(campaign, number, directory) for number in numbers]


def shrink_sequence(campaign: int, number: int, signature: str, directory: Path | None, is_own_process: bool) -> Shrunk:
    """Find the fewest commands that are answered differently, as a program for `BothManagers`."""
    error = _difference(campaign, number, directory, Phase.generate, Phase.shrink)
    text = "\n".join(getattr(error, "__notes__", ())) + f"\n{error}\n"
    return Shrunk(f"seed-{campaign}-sequence-{number}", text, text.count("state."), error is not None)


def _play(campaign: int, number: int, directory: Path | None) -> Played:
    began = time.monotonic()
    error = _difference(campaign, number, directory, Phase.generate)
    reason = "" if error is None else _reason(error)
    outcome = "failed" if reason else "passed"
    return Played(number, outcome, reason, STEPS, time.monotonic() - began, time.time())


def _reason(error: Exception) -> str:
    found = _COMMAND.match(str(error))
    if found:
        return f"{found[0]} is answered differently"
    # Books differ by their devices, which are not the same in two sequences.
    return f"{type(error).__name__} in {traceback.extract_tb(error.__traceback__)[-1].name}"


def _difference(campaign: int, number: int, directory: Path | None, *phases: Phase) -> Exception | None:
    """Play a sequence; what was answered differently, if anything."""
    sides = _sides(directory)
    machine: Any = type("Machine", (_OneSequence,), {"sides": sides, "minor": _programs().minor})
    chosen = settings(
        max_examples=1,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=phases,
    )
    try:
        run_state_machine_as_test(seed((campaign << 32) + number)(machine), settings=chosen)
    except FlakyFailure as error:
        # The first time it was answered differently, the second time not; which answer that was is what counts.
        return error.exceptions[0]
    except Exception as error:
        return error
    return None


class _OneSequence(BothManagers):
    """Leaves out what Hypothesis tries first, the simplest sequence, which is the same for each seed."""

    has_begun = False

    def set_up(self, layout: str, **given: Any) -> None:
        if not self.has_begun:
            type(self).has_begun = True
            reject()
        super().set_up(layout, **given)


@cache
def _programs() -> Programs:
    programs = Programs.named_by_environment()
    if programs is None:
        raise HostError(
            "no oracle: set SIMKUBELET_ORACLE and SIMKUBELET_ORACLE_STUB to what python -m tools.build.oracle prints"
        )
    return programs


@cache
def _sides(directory: Path | None) -> Sides:
    """Both kubelets of this worker, which end with it; what they log is not shown, and nothing else of a worker is."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    return Sides(_programs(), ("a", "b"), directory)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or continue a campaign; the exit status is that of ``simkubelet campaign``."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.campaign", description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, required=True, metavar="FILE")
    parser.add_argument("--sequences", type=int, metavar="N", help="those of earlier runs among them")
    parser.add_argument("--time", type=float, metavar="S", help="end after so many seconds")
    parser.add_argument("--seed", type=int, metavar="S", help="by default that of the file, or a new one")
    parser.add_argument("-n", type=int, default=2, metavar="N", help="processes, two by default")
    parser.add_argument("--report", type=Path, metavar="DIR")
    given = parser.parse_args(arguments)
    try:
        _programs()
        with SequenceResults(given.results, given.seed, secrets.randbits(31)) as results:
            return _run(given, results)
    except SimkubeletError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130


def _run(given: argparse.Namespace, results: Results) -> int:
    began, before, shown = time.monotonic(), results.count, [time.monotonic()]

    def show() -> None:
        if (now := time.monotonic()) >= shown[0] + _SHOW_EACH_S:
            shown[0] = now
            rate = (results.count - before) / (now - began)
            print(f"{results.count:,} sequences, {rate:.1f} a second", file=sys.stderr)

    until = None if given.time is None else began + given.time
    try:
        with local_workers(given.n) as workers:
            Campaign(results, workers, show, given.sequences, until, play_sequences, shrink_sequence).run()
    finally:
        print(f"seed {results.seed}: {results.count:,} sequences, {results.count - before:,} of them in this run")
        for finding in results.findings():
            print(f"{number_of(finding.count, 'time')}: {finding.reason}; first in sequence {finding.number}")
            print(finding.shrunk.text if finding.shrunk is not None else "")
        if given.report is not None:
            write_page(given.report, results)
    return 1 if results.findings() else 0


if __name__ == "__main__":
    sys.exit(main())
