"""Settings of all tests."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes, or its making, is the machine's affair: speed is measured in bench/. Examples may share
# what a fixture has made: a setting of its own would turn the first check on again.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("untimed")

LONGEST = (
    "test_nvidia_conformance",
    "test_nvidia_stories",
    "test_good_plugin_passes_every_check",
    "test_bundled_plugin_gets_the_verdicts_of_the_page",
    "test_sample_plugin_gets_the_verdicts_of_the_page",
    "test_conformance_checks",
    "test_pytest_plugin",
    "test_same_as_the_real_manager",
    "test_same_topology",
    "test_stories",
    "test_docs",
)
"""Tests that take tens of seconds, and modules of such tests."""


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest tests begin first, so that at the end no process waits for one that another began late."""
    place = {name: number for number, name in enumerate(LONGEST)}

    def turn(item: pytest.Item) -> int:
        return min(place.get(name, len(LONGEST)) for name in (item.path.stem, item.name.partition("[")[0]))

    items.sort(key=turn)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat each test as often as `--flake` says, each time as a test of its own with fixtures of its own."""
    if times := metafunc.config.getoption("--flake"):
        metafunc.fixturenames.append("flake_round")
        metafunc.parametrize("flake_round", range(1, times + 1), ids=lambda number: f"round {number}", scope="function")
