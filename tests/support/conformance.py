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
from scenarios.play.runner import TOO_BUSY
from tools.generate.conformance_page import KNOWN

EVERY_CHECK: Final = os.environ.get("SIMKUBELET_EVERY_CHECK") == "1"
"""Play all checks where a test otherwise plays those that tell most for their time; takes half an hour."""
_GOOD: Final = (Status.PASSED, Status.SKIPPED)
_MORE_TIMES: Final = 5


async def statuses(subject: Subject, checks: Sequence[Check], folder: Path | None = None) -> dict[str, Status]:
    """Check -> its status; of checks and of those that they need.

    A check that the machine was too busy for has said nothing about the plugin: it is played again, one at a time, and
    so are those that were skipped for it.
    """
    results: dict[str, Result] = {}

    async def play(ids: Sequence[str], count: int | None) -> None:
        wanted = with_needed(all_checks(), ids)
        chosen = [check for check in all_checks() if check.id in wanted]
        await conform(subject, chosen, count, folder, lambda result: results.update({result.check.id: result}))

    await play([check.id for check in checks], None)
    for _ in range(_MORE_TIMES):
        unsaid = {name for name, result in results.items() if TOO_BUSY in result.verdict.reason}
        unsaid |= {name for name, result in results.items() if result.cause in unsaid}
        if not unsaid:
            break
        await play(sorted(unsaid), 1)
    return {name: result.status for name, result in results.items()}


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
