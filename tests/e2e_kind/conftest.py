"""A kind cluster for each process that runs tests here, made before its first; all are deleted in the end.

``KIND_NODE_IMAGE`` names the node image, kind's default where it is not set.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from scenarios.backends.kind.cluster import KindSession, kind_session
from simkubelet.model.errors import HostError
from tests.support.patience import PROGRAM_LIMIT_S

Run = Callable[..., subprocess.CompletedProcess[str]]
NODES = 2
PREFIX = "SIMKUBELET_E2E_KIND_PREFIX"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="keep what the clusters record of equal stories")


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config):
        # The processes of pytest-xdist inherit it.
        os.environ[PREFIX] = f"sk-e2e-{os.getpid()}"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the clusters of this run; a process of pytest-xdist does not live long enough after a Ctrl-C."""
    kind = shutil.which("kind")
    if is_worker(config) or kind is None:
        return
    there = subprocess.run([kind, "get", "clusters", "--quiet"], capture_output=True, text=True, check=False).stdout
    for name in there.split():
        if name.startswith(f"{os.environ[PREFIX]}-"):
            subprocess.run([kind, "delete", "cluster", "--quiet", "--name", name], check=True, timeout=PROGRAM_LIMIT_S)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report why a test was run again, as pytest-rerunfailures reports only that it was."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"run again: {report.nodeid}")
        crash = getattr(report.longrepr, "reprcrash", None)
        terminalreporter.line(crash.message if crash is not None else report.longreprtext)


def is_worker(config: pytest.Config) -> bool:
    """Whether this is one of several processes that run tests."""
    return hasattr(config, "workerinput")


def name_of_a_cluster(ending: str) -> str:
    """A name that nobody else uses, of a cluster that is deleted after the tests where it is still there."""
    return f"{os.environ[PREFIX]}-{ending}"


@pytest.fixture(scope="session")
def cluster(worker_id: str) -> str:
    """A cluster's name; nobody uses the cluster yet."""
    name = name_of_a_cluster(worker_id)
    try:
        asyncio.run(_make(name))
    except HostError:
        # Several are made at once, and a machine that has much to do is too slow now and then.
        asyncio.run(_make(name))
    return name


@pytest.fixture
def new_cluster(worker_id: str) -> str:
    """The name of a cluster that is not there."""
    return name_of_a_cluster(f"{worker_id}-new")


async def _make(name: str) -> None:
    async with kind_session(name, os.environ.get("KIND_NODE_IMAGE") or None, keep=True, count=NODES):
        pass


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(cluster: str) -> AsyncIterator[KindSession]:
    """The cluster, used by this process alone."""
    async with kind_session(cluster, None, keep=False) as made:
        yield made


@pytest.fixture
def run(cluster: str) -> Run:
    """Plays stories on the cluster: the arguments that follow ``simkubelet run``."""

    def play(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "simkubelet", "run", *arguments, "--cluster", cluster]
        return subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_LIMIT_S, check=False)

    return play
