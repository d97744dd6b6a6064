"""NVIDIA's own plugin gets the verdicts that its source promises, and so does ours; the page names them."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from scenarios.conform.checks import all_checks, selected
from scenarios.conform.conform import Result, Status, conform
from scenarios.conform.profile import Profile
from scenarios.conform.tested_plugin import Subject, discovered
from tools.generate.conformance_page import KNOWN

pytestmark = pytest.mark.nvidia_go

GROUPS = ("allocation", "preferred-allocation", "health", "stream", "instances", "hostile-kubelet", "shutdown")
PROFILE = Profile.model_validate(
    {
        "gpus": {"profile": "t4", "count": 2},
        "break": {"fail": {"gpu": 0, "xid": 79}},
        "heal": {"heal": {"gpu": 0}},
    }
)


def verdicts(command: tuple[str, ...], folder: Any) -> dict[str, Status]:
    """Check -> verdict, of those that the plugin does not pass."""

    async def judged() -> list[Result]:
        results: list[Result] = []
        subject = await discovered(Subject(command, PROFILE), folder)
        await conform(subject, selected(all_checks(), GROUPS, ()), None, folder, results.append)
        return results

    found = asyncio.run(judged())
    return {one.check.id: one.status for one in found if one.status not in (Status.PASSED, Status.SKIPPED)}


def test_both_plugins_get_the_verdicts_of_the_page(run: Any, nvidia_plugin: str) -> None:
    expected = {check: Status(verdict) for plugin, check, verdict, _ in KNOWN if plugin == "NVIDIA k8s-device-plugin"}

    assert verdicts((nvidia_plugin,), run.scratch) == expected
    assert verdicts((sys.executable, "-m", "simkubelet", "plugin", "nvidia"), run.scratch) == expected
