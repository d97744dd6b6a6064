"""Each check of ``simkubelet conform`` with a plugin that passes all of them, and with one that is broken for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scenarios.conform.checks import Check, all_checks
from scenarios.conform.conform import Result, Status, conform
from scenarios.conform.profile import Profile
from scenarios.conform.tested_plugin import Subject, discovered
from scenarios.story.check_spec import Severity
from tests.support import broken_plugin

ROOT = Path(__file__).parents[3]
CHECKS = all_checks()
PROFILE = Profile.model_validate(
    {
        "env": {"PYTHONPATH": str(ROOT)},
        "break": {"createFile": {"path": broken_plugin.BROKEN}},
        "heal": {"removeFile": {"path": broken_plugin.BROKEN}},
        "many": {"count": broken_plugin.MANY, "env": {"BROKEN_PLUGIN_COUNT": str(broken_plugin.MANY)}},
        "wait": "3s",
    }
)


def plugin(fault: str = "") -> Subject:
    """The plugin with a fault, as it is discovered."""
    return Subject(
        (sys.executable, "-m", "tests.support.broken_plugin", fault),
        PROFILE,
        broken_plugin.RESOURCE,
        broken_plugin.COUNT,
        (broken_plugin.RESOURCE,),
        frozenset({"preStart", "preferredAllocation"}),
    )


async def statuses(subject: Subject, *checks: Check) -> dict[str, Status]:
    results: list[Result] = []
    await conform(subject, checks, None, None, results.append)
    return {result.check.id: result.status for result in results}


async def test_plugin_is_discovered() -> None:
    unknown = Subject(plugin().command, PROFILE)

    assert await discovered(unknown, None) == plugin()


async def test_good_plugin_passes_every_check() -> None:
    found = await statuses(plugin(), *CHECKS)

    assert found == dict.fromkeys(found, Status.PASSED)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
async def test_broken_plugin_fails_its_check(check: Check) -> None:
    found = await statuses(plugin(check.id), check)

    is_warning = check.spec.severity is Severity.WARNING
    assert found == {check.id: Status.WARNING if is_warning else Status.FAILED}
