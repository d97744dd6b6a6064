"""The check of a release for known vulnerabilities."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from typing import Any

import pytest

from tools.check import advisories

VULNERABLE = {
    "name": "aiohttp",
    "version": "3.9.0",
    "vulns": [{"id": "PYSEC-2024-24", "fix_versions": ["3.9.2"], "aliases": [], "description": ""}],
}
CLEAN = {"name": "click", "version": "8.2", "vulns": []}
UNKNOWN = {"name": "rich", "skip_reason": "Dependency not found on PyPI and could not be audited: rich (13.9)"}


def answer(monkeypatch: pytest.MonkeyPatch, stdout: str, stderr: str = "") -> None:
    """What pip-audit says."""

    def run(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, stdout, stderr)

    monkeypatch.setattr(advisories.subprocess, "run", run)


def findings(*found: Any) -> str:
    return json.dumps({"dependencies": found, "fixes": []})


def test_all_that_is_needed_at_run_time_is_pinned_as_installed() -> None:
    pinned = dict(advisories.requirements("simkubelet"))

    assert pinned["aiohttp"] == version("aiohttp")
    assert "yarl" in pinned, "aiohttp needs it"
    assert "pytest" not in pinned
    assert "simkubelet" not in pinned


def test_known_vulnerability_fails_and_names_the_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, findings(VULNERABLE, CLEAN, UNKNOWN))

    assert advisories.main() == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "aiohttp 3.9.0: PYSEC-2024-24, fixed in 3.9.2"
    assert lines[1].startswith("rich: not audited: Dependency not found")


def test_no_vulnerability_passes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer(monkeypatch, findings(CLEAN))

    assert advisories.main() == 0
    assert capsys.readouterr().out.startswith("0 of ")


@pytest.mark.parametrize(
    ("stdout", "stderr", "reason"),
    [
        pytest.param(findings(UNKNOWN), "", "not found on PyPI", id="an index of packages only"),
        pytest.param("", "WARNING\nERROR: Could not connect to PyPI", "Could not connect", id="no network"),
    ],
)
def test_advisories_that_cannot_be_had_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stdout: str, stderr: str, reason: str
) -> None:
    answer(monkeypatch, stdout, stderr)

    assert advisories.main() == 0

    out = capsys.readouterr().out
    assert out.startswith("advisories: skipped, as they cannot be had here: ")
    assert reason in out
