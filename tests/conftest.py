"""Settings of all tests."""

from __future__ import annotations

import itertools
import signal
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes, or its making, is the machine's affair: speed is measured in bench/. Examples may share
# what a fixture has made: a setting of its own would turn the first check on again.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("untimed")

WAITING = (
    "test_example_driver",
    "test_nvidia_conformance",
    "test_good_plugin_passes_every_check",
    "test_bundled_plugin_gets_the_verdicts_of_the_page",
    "test_sample_plugin_gets_the_verdicts_of_the_page",
    "test_conformance_checks",
    "test_nvidia_stories",
    "test_plugin_reliability",
    "test_campaigns",
)
"""Tests that wait for most of their time, and modules of such tests; the longest first."""
COMPUTING = (
    "test_all_stories_pass_but_those_of_separated_containers",
    "test_readme_works_on_a_bare_machine",
    "test_pytest_plugin",
    "test_same_as_the_real_manager",
    "test_same_topology",
    "test_stories",
    "test_docs",
)
"""Tests that compute for tens of seconds, and modules of such tests; the longest first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--flake", type=int, default=0, metavar="TIMES", help="run each chosen test so many times, to find a flaky one"
    )
    parser.addoption("--every-story", action="store_true", help="play all portable stories on clusters")


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
    """Let the longest tests begin first, and those that wait in turn with those that compute.

    So no process waits at the end for a test that another began late, and while some wait others compute.
    """

    def place(item: pytest.Item, names: tuple[str, ...]) -> int:
        mine = (item.path.stem, item.name.partition("[")[0])
        return min((number for number, name in enumerate(names) if name in mine), default=len(names))

    waiting = [item for item in items if place(item, WAITING) < len(WAITING)]
    waiting.sort(key=lambda item: place(item, WAITING))
    others = [item for item in items if place(item, WAITING) == len(WAITING)]
    others.sort(key=lambda item: place(item, COMPUTING))
    in_turn = itertools.zip_longest(waiting, others)
    items[:] = [item for pair in in_turn for item in pair if item is not None]


def part_of(report: pytest.TestReport) -> str:
    """Return the session of `noxfile.py` that runs a test alone."""
    parts = {"nvidia_go": "nvidia", "clients": "clients", "dra_go": "dra", "nvidia_dra_go": "nvidia_dra"}
    marked = (part for mark, part in parts.items() if mark in report.keywords)
    return next(marked, report.nodeid.split("/")[1])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how long the tests of each part took, where several parts were run at once."""
    reports = [one for many in terminalreporter.stats.values() for one in many if isinstance(one, pytest.TestReport)]
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        if report.nodeid.startswith("tests/"):
            seconds[part_of(report)] += report.duration
    if len(seconds) > 1:
        terminalreporter.section("seconds of all tests of a part")
        for part, total in seconds.items():
            terminalreporter.line(f"{total:8.1f} {part}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat each test as often as `--flake` says, each time as a test of its own with fixtures of its own."""
    if times := metafunc.config.getoption("--flake"):
        metafunc.fixturenames.append("flake_round")
        metafunc.parametrize("flake_round", range(1, times + 1), ids=lambda number: f"round {number}", scope="function")
