"""A kind cluster for each process that runs tests here: made before its first, deleted after its last.

``KIND_NODE_IMAGE`` names the node image, kind's default where it is not set.
"""

from __future__ import annotations

import asyncio
import datetime
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from scenarios.backends.kind.session import KindSession, kind_session
from simkubelet.errors import HostError

Run = Callable[..., subprocess.CompletedProcess[str]]
NODES = 2
RECORD = Path(__file__).with_name("equal.json")
"""Story -> Kubernetes version -> the day on which both worlds told the same; `tools/kind_column.py` reads it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help=f"note in {RECORD.name} which stories were equal")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    """A cluster's name; nobody uses the cluster yet."""
    name = f"sk-e2e-{os.getpid()}"
    try:
        try:
            asyncio.run(_make(name))
        except HostError as error:
            with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
                print(f"\nthe cluster could not be made: {error}; trying once more ...", flush=True)
            asyncio.run(_make(name))
        yield name
    finally:
        delete = ["kind", "delete", "cluster", "--quiet", "--name", name]
        subprocess.run(delete, check=True, timeout=120)


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
        return subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)

    return play


@pytest.fixture(scope="session")
def record(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str, bool], None]]:
    """Takes a story's name, the version it was played on, and whether both worlds told the same."""
    equal: dict[tuple[str, str], bool] = {}

    def note(story: str, kubernetes: str, is_equal: bool) -> None:
        equal[story, kubernetes] = is_equal

    yield note
    if request.config.getoption("--record"):
        _record(equal)


def _record(equal: Mapping[tuple[str, str], bool]) -> None:
    """Write what was seen into the file, which other processes write too."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    with RECORD.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        told: dict[str, dict[str, str]] = json.load(file)
        for (story, kubernetes), is_equal in equal.items():
            versions = told.setdefault(story, {})
            versions.pop(kubernetes, None)
            if is_equal:
                versions[kubernetes] = today
        file.seek(0)
        file.truncate()
        file.write(json.dumps({story: told[story] for story in told if told[story]}, indent=1, sort_keys=True) + "\n")
