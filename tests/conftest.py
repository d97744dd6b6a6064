"""Settings of all tests."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair: speed is measured in bench/.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--flake", type=int, default=0, metavar="TIMES", help="run each chosen test so many times, to find a flaky one"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let tests interrupt what they start.

    What a shell runs in the background ignores Ctrl-C, what nohup runs the end of a terminal, as do their children.
    """
    if config.getoption("--flake"):
        # A second try would hide what is looked for.
        config.option.reruns = 0
    for number, action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, action)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat each test as often as `--flake` says, each time as a test of its own with fixtures of its own."""
    if times := metafunc.config.getoption("--flake"):
        metafunc.fixturenames.append("flake_round")
        metafunc.parametrize("flake_round", range(1, times + 1), ids=lambda number: f"round {number}", scope="function")
