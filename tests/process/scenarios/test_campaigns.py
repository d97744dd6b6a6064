"""Campaigns as processes: killed and continued, interrupted, with dask, with planted bugs, with wrong input."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from scenarios.campaign.workers import local_workers
from tests.support.patience import PROGRAM_LIMIT_S, eventually

pytestmark = pytest.mark.slow

PLANTED: Final = """
    from simkubelet.devices.device_manager import DeviceManager, FreeDevices

    DeviceManager.free = lambda self, resource: FreeDevices(self.healthy[resource])
"""
"""A kubelet with it gives each pod the first devices, held by another pod or not."""


class Campaigns:
    """Runs campaigns in a folder, with `file` as their results; their nodes are in another with a shorter path."""

    def __init__(self, folder: Path, nodes: str) -> None:
        self.folder = folder
        self.file = folder / "campaign.sqlite"
        self.environment = {**os.environ, "COLUMNS": "200", "TMPDIR": nodes}

    def plant(self, code: str) -> None:
        """Let all processes do something at their start."""
        planted = self.folder / "planted"
        planted.mkdir()
        (planted / "sitecustomize.py").write_text(textwrap.dedent(code))
        self.environment["PYTHONPATH"] = str(planted)

    def start(self, *options: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "simkubelet", "campaign", *options]
        return subprocess.Popen(
            argv,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *options: str, command: str = "campaign") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "simkubelet", command, *options],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PROGRAM_LIMIT_S,
            check=False,
        )

    def played(self) -> list[tuple[Any, ...]]:
        """What the file has of each story, as long as the campaign lets it be read."""
        if not self.file.exists():
            return []
        with closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)) as database:
            try:
                return database.execute("SELECT number, outcome, played_at FROM stories ORDER BY number").fetchall()
            except sqlite3.OperationalError:
                # Its tables are not there yet.
                return []

    def numbers(self) -> list[int]:
        return [number for number, *_ in self.played()]


@pytest.fixture
def campaigns(tmp_path: Path) -> Iterator[Campaigns]:
    # What is killed leaves the folders of its nodes behind.
    with tempfile.TemporaryDirectory(prefix="sk-") as nodes:
        yield Campaigns(tmp_path, nodes)


def of_session(leader: int) -> list[int]:
    """The processes of a session that still run."""
    fields = ((int(path.name), stat) for path in Path("/proc").glob("[0-9]*") if (stat := _stat(path)))
    return [pid for pid, stat in fields if stat[0] not in "ZX" and int(stat[3]) == leader]


def _stat(path: Path) -> list[str]:
    try:
        return (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def test_killed_campaign_goes_on_with_each_story_once(campaigns: Campaigns) -> None:
    killed = campaigns.start("--seed", "7", "--stories", "16", "-n", "1")
    eventually(campaigns.played)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=PROGRAM_LIMIT_S)
    eventually(lambda: not of_session(killed.pid), lambda: f"{of_session(killed.pid)} go on without the campaign")
    before = campaigns.played()

    done = campaigns.run("--stories", "16", "-n", "1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"seed 7, {len(before)} stories played before" in done.stdout
    assert 0 < len(before) < 16
    assert campaigns.numbers() == list(range(16))
    assert [story for story in campaigns.played() if story[0] in {number for number, *_ in before}] == before


@pytest.mark.parametrize(
    ("numbers", "send", "status"),
    [
        pytest.param([signal.SIGINT], os.kill, 130, id="INT"),
        pytest.param([signal.SIGTERM, signal.SIGINT], os.kill, {143, 130}, id="TERM and INT"),
        pytest.param([signal.SIGHUP], os.killpg, 129, id="closed terminal"),
        pytest.param([signal.SIGTERM], os.killpg, 143, id="TERM to all"),
    ],
)
def test_interrupted_campaign_keeps_its_results(
    campaigns: Campaigns, numbers: list[int], send: Callable[[int, int], None], status: int | set[int]
) -> None:
    running = campaigns.start("--seed", "7", "-n", "1", "--report", "page")
    eventually(campaigns.played)
    for number in numbers:
        send(running.pid, number)
    output, errors = running.communicate(timeout=PROGRAM_LIMIT_S)

    assert running.returncode in (status if isinstance(status, set) else {status})
    assert [line for line in errors.splitlines() if " a second, " not in line] == ["interrupted; everything was ended"]
    assert f"{len(campaigns.played())} stories, {len(campaigns.played())} of them in this run" in output
    assert f"{len(campaigns.played())} stories" in (campaigns.folder / "page" / "index.html").read_text()
    # Its helpers may be on their way out when it is reaped.
    eventually(lambda: not of_session(running.pid), lambda: f"{of_session(running.pid)} go on without the campaign")


def test_planted_bug_is_found_made_small_and_repeated_by_its_story(campaigns: Campaigns) -> None:
    campaigns.plant(PLANTED)

    done = campaigns.run("--seed", "7", "--stories", "1", "-n", "1")

    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"1 time: expect node .*: expected STUB_DEVICES \w+-\d in one pod; actual in p", done.stdout)
    story = next((campaigns.folder / "campaign-findings").glob("seed-7-story-*.yaml"))
    assert f"simkubelet run campaign-findings/{story.name}: 2 steps" in done.stdout
    repeated = campaigns.run(str(story), command="run")
    assert repeated.returncode == 1, repeated.stdout + repeated.stderr
    assert "in one pod" in repeated.stdout


def test_process_that_a_story_leaves_behind_is_found(tmp_path: Path) -> None:
    leaves_one = """
        import subprocess, sys
        from pathlib import Path
        from scenarios.campaign.player import play_batch
        from scenarios.campaign.world import CampaignWorld

        at_end, left = CampaignWorld.__aexit__, []

        async def leave_a_process(self, *error):
            await at_end(self, *error)
            left.append(subprocess.Popen(["sleep", "60"]))

        CampaignWorld.__aexit__ = leave_a_process
        print(*(one.reason for one in play_batch(7, [2], Path(sys.argv[1]), is_own_process=True)))
        for process in left:
            process.kill()
    """
    with tempfile.TemporaryDirectory(prefix="sk-") as folder:
        argv = [sys.executable, "-c", textwrap.dedent(leaves_one), folder]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert done.stdout == "left behind: a process\n"


def test_workers_load_nothing_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a worker of multiprocessing imports first.
    (tmp_path / "socket.py").write_text("from pathlib import Path\n\nPath('loaded').touch()\nraise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)

    with local_workers(1) as workers:
        assert workers.executor.submit(os.getpid).result() != os.getpid()

    assert [each.name for each in tmp_path.iterdir()] == ["socket.py"]


@pytest.mark.parametrize(
    ("options", "status", "parts"),
    [
        pytest.param(["--results", "story.txt"], 2, ["story.txt is no file of a campaign", "name another"], id="text"),
        pytest.param(["--results", "no/c.sqlite"], 2, ["no/c.sqlite cannot be opened"], id="folder"),
        pytest.param(["--seed", "8", "--results", "seven.sqlite"], 2, ["seed 7", "without --seed"], id="seed"),
        pytest.param(["--time", "soon"], 2, ["--time", "soon"], id="time"),
        pytest.param(["-n", "many"], 2, ["-n", "'many' is neither auto nor a number"], id="processes"),
        pytest.param(["--findings", "story.txt/x"], 2, ["--findings", "story.txt"], id="findings"),
        pytest.param(["--scheduler", "nonsense://x"], 2, ["--scheduler", "nonsense://x"], id="scheduler-scheme"),
        pytest.param(
            ["--scheduler", "tcp://127.0.0.1:1"], 2, ["no scheduler answers", "dask scheduler"], id="scheduler"
        ),
    ],
)
def test_wrong_input_is_one_line(campaigns: Campaigns, options: list[str], status: int, parts: list[str]) -> None:
    (campaigns.folder / "story.txt").write_text("no database, but a text of some length\n" * 20)
    with closing(sqlite3.connect(campaigns.folder / "seven.sqlite")) as database, database:
        database.execute("CREATE TABLE campaign (format TEXT NOT NULL, seed INTEGER NOT NULL)")
        database.execute("INSERT INTO campaign VALUES ('simkubelet campaign 1', 7)")

    done = campaigns.run("--stories", "1", *options)

    (line,) = done.stderr.splitlines()
    assert (done.returncode, line[:7]) == (status, "error: ")
    for part in parts:
        assert part in line


@contextmanager
def dask(
    kind: str, log: Path, said: str, *options: str, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler or a worker, which find each other by a file, as soon as it has said something."""
    argv = [sys.executable, "-m", "dask", kind, "--scheduler-file", "scheduler.json", "--host", "127.0.0.1", *options]
    with log.open("w") as output:
        process = subprocess.Popen(argv, cwd=log.parent, env=environment, stdout=output, stderr=output)
    try:
        eventually(lambda: said in log.read_text(), lambda: f"the {kind} does not begin: {log.read_text()}")
        yield process
    finally:
        process.kill()
        process.wait()


def test_killed_dask_worker_costs_no_story_and_counts_none_twice(campaigns: Campaigns) -> None:
    folder, registered = campaigns.folder, "Registered to:"
    scheduler = ("--port", "0", "--dashboard-address", "127.0.0.1:0")
    worker = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
    run = partial(dask, environment=campaigns.environment)
    with (
        run("scheduler", folder / "0.log", "Scheduler at:", *scheduler),
        run("worker", folder / "1.log", registered, *worker) as lost,
        run("worker", folder / "2.log", registered, *worker),
    ):
        address = re.search(r"Scheduler at:\s+(tcp://\S+)", (folder / "0.log").read_text())
        assert address is not None
        running = campaigns.start("--seed", "7", "--stories", "16", "--scheduler", address[1])
        eventually(lambda: campaigns.played() or running.poll() is not None)
        lost.kill()
        output, errors = running.communicate(timeout=PROGRAM_LIMIT_S)

    assert running.returncode == 0, output + errors
    assert "16 stories, 16 of them in this run" in output
    assert campaigns.numbers() == list(range(16))
