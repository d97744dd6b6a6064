"""The verdicts of ``simkubelet conform`` on a plugin, for comparison with those that docs/conformance.md names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scenarios.conform.checks import Check, all_checks, selected, with_needed
from scenarios.conform.conform import Result, Status, conform
from scenarios.conform.profile import Profile
from scenarios.conform.tested_plugin import Subject, discovered
from tools.generate.conformance_page import KNOWN

EVERY_CHECK: Final = os.environ.get("SIMKUBELET_EVERY_CHECK") == "1"
"""Play all checks where a test otherwise plays those that tell most for their time; takes half an hour."""
_TRIES: Final = 10
_GOOD: Final = (Status.PASSED, Status.SKIPPED)


async def statuses(subject: Subject, checks: Sequence[Check], folder: Path | None = None) -> dict[str, Status]:
    """Check -> its status; of checks and of those that they need.

    What a busy machine did not let finish is played again, one at a time, and with it what was skipped for it.
    """
    found = await _statuses(subject, checks, None, folder)
    for _ in range(_TRIES):
        unknown = {check for check, status in found.items() if status is Status.UNKNOWN}
        again = {
            check.id
            for check in all_checks()
            if check.id in found
            and (check.id in unknown or unknown & with_needed(all_checks(), check.spec.needs.passed))
        }
        if not again:
            break
        found |= await _statuses(subject, [check for check in all_checks() if check.id in again], 1, folder)
    return found


async def _statuses(
    subject: Subject, checks: Sequence[Check], count: int | None, folder: Path | None
) -> dict[str, Status]:
    results: list[Result] = []
    wanted = with_needed(all_checks(), [check.id for check in checks])
    await conform(subject, [check for check in all_checks() if check.id in wanted], count, folder, results.append)
    return {result.check.id: result.status for result in results}


async def verdicts(
    command: Sequence[str], profile: Mapping[str, Any], groups: Sequence[str], folder: Path | None = None
) -> dict[str, Status]:
    """Check -> status, of the checks in these groups that the plugin does not pass."""
    subject = await discovered(Subject(tuple(command), Profile.model_validate(profile)), folder)
    chosen = selected(all_checks(), () if EVERY_CHECK else groups, ())
    found = await statuses(subject, chosen, folder)
    return {check: status for check, status in found.items() if status not in _GOOD}


def known(plugin: str, groups: Sequence[str]) -> dict[str, Status]:
    """The same, as the page names them."""
    return {
        check: Status(verdict)
        for name, check, verdict, _ in KNOWN
        if name == plugin and (EVERY_CHECK or check.partition("/")[0] in groups or check in groups)
    }
