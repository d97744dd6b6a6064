"""Settings of all tests."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair: speed is measured in bench/.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Let tests interrupt what they start.

    What a shell runs in the background ignores Ctrl-C, what nohup runs the end of a terminal, as do their children.
    """
    for number, action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, action)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell why a test was run again, as pytest-rerunfailures tells only that it was."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"run again: {report.nodeid}")
        crash = getattr(report.longrepr, "reprcrash", None)
        terminalreporter.line(crash.message if crash is not None else report.longreprtext)
