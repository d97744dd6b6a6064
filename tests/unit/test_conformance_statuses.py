"""What `tests.support.conformance` makes of checks that a busy machine left without a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from scenarios.conform.checks import Check, all_checks, with_needed
from scenarios.conform.conform import OnResult, Result, Status
from scenarios.conform.profile import Profile
from scenarios.conform.tested_plugin import Subject
from scenarios.evaluation.verdict import Outcome, Verdict
from scenarios.play.runner import TOO_BUSY
from tests.support import conformance

PLUGIN = Subject(("plugin",), Profile.model_validate({}))
CHECK = next(check for check in all_checks() if check.spec.needs.passed)
(NEEDED, *_) = CHECK.spec.needs.passed


class Machine:
    """It is too busy for a check, so often; others fail for the reason given."""

    def __init__(self, busy_for: str, times: int, reason: str = "") -> None:
        self.played: list[set[str]] = []
        self._busy_for, self._times, self._reason = busy_for, times, reason

    async def conform(
        self, subject: Subject, checks: Sequence[Check], count: int | None, folder: Path | None, on_result: OnResult
    ) -> None:
        self.played.append({check.id for check in checks})
        is_busy = len(self.played) <= self._times
        for check in checks:
            if is_busy and check.id == self._busy_for:
                verdict = Verdict(check.id, Outcome.UNKNOWN, 1.0, self._reason or f"expect: 1; {TOO_BUSY}: fewer")
                on_result(Result(check, Status.UNKNOWN, verdict))
            elif is_busy and self._busy_for in check.spec.needs.passed:
                skipped = Verdict(check.id, Outcome.SKIPPED, 0.0, "needs it")
                on_result(Result(check, Status.SKIPPED, skipped, cause=self._busy_for))
            else:
                on_result(Result(check, Status.PASSED, Verdict(check.id, Outcome.VALID, 1.0)))


async def statuses(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> dict[str, Status]:
    monkeypatch.setattr(conformance, "conform", machine.conform)
    return await conformance.statuses(PLUGIN, [CHECK])


async def test_check_without_a_verdict_is_played_again_with_those_skipped_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(NEEDED, times=2)

    found = await statuses(machine, monkeypatch)

    assert found == dict.fromkeys(with_needed(all_checks(), [CHECK.id]), Status.PASSED)
    assert [{CHECK.id, NEEDED} <= played for played in machine.played] == [True] * 3


async def test_check_is_unknown_where_the_machine_stays_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await statuses(Machine(CHECK.id, times=100), monkeypatch)

    assert found[CHECK.id] is Status.UNKNOWN


async def test_check_is_unknown_at_once_for_any_other_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(CHECK.id, times=1, reason="no process can be started")

    found = await statuses(machine, monkeypatch)

    assert (found[CHECK.id], len(machine.played)) == (Status.UNKNOWN, 1)
