"""Programs that take more memory than they may have: they end, and nothing else does.

Where the machine gives us no cgroups, the tests of cgroups are skipped.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simkubelet._internal import bounds, cgroups
from simkubelet._internal.bounds import BoundProgram, Bounds
from simkubelet.runtime.container_runtime import ContainerStartError, ExitReason, StartFailure
from tests.support.patience import LIMIT_S

PYTHON = sys.executable
TAKES = "b = []\nwhile True: b.append(b'x' * 2**20)"
"""Python that takes memory without end."""
SCORE = "/proc/self/oom_score_adj"
OWN_SCORE = Path(SCORE).read_text()

with_cgroups = pytest.mark.skipif(not bounds.version_of_cgroups(), reason="no cgroup can be made here")
with_counted_processes = pytest.mark.skipif(
    not any("pids" in one.controllers for one in bounds._groups(os.getpid())._parents),
    reason="no cgroup that counts processes can be made here",
)


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> int:
    """The memory of all programs together, on a machine that has less than this one."""
    all_of_it = 400 * 2**20
    groups = cgroups.Groups(all_of_it, cgroups.processes_of_machine())
    monkeypatch.setattr(bounds, "_groups", lambda _pid: groups)
    monkeypatch.setattr(bounds, "memory_for_programs", lambda: all_of_it)
    return all_of_it


@pytest.fixture
def no_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups.Groups, "version", 0)


@with_cgroups
async def test_container_beyond_its_limit_is_oom_killed_and_others_live(node: Any) -> None:
    neighbour = await node.start("sleep", "infinity", resources={"limits": {"memory": "64Mi"}})
    greedy = await node.start(PYTHON, "-c", TAKES, resources={"limits": {"memory": "64Mi"}})

    status = await greedy.wait()

    assert (status.code, status.reason) == (137, ExitReason.OOM_KILLED)
    assert neighbour.is_running
    assert (await neighbour.stop(0)).reason is ExitReason.ERROR


@with_cgroups
async def test_container_without_limit_ends_at_the_bound_for_all(node: Any, small_machine: int) -> None:
    neighbour = await node.start("sleep", "infinity")
    greedy = await node.start(PYTHON, "-c", TAKES)

    status = await greedy.wait()

    assert (status.code, status.reason) == (137, ExitReason.OOM_KILLED)
    assert neighbour.is_running


@with_cgroups
async def test_container_whose_child_is_killed_for_memory_is_oom_killed(node: Any) -> None:
    """The program itself goes on with cgroup v1, and ends well."""
    command = f"{PYTHON} -c 'bytearray(2**28)'; exit 0"
    greedy = await node.start("sh", "-c", command, resources={"limits": {"memory": "64Mi"}})

    assert (await greedy.wait()).reason is ExitReason.OOM_KILLED


@with_cgroups
async def test_files_in_the_memory_of_a_container_count(node: Any) -> None:
    command = "dd if=/dev/zero of=/tmp/file bs=1M count=200"
    greedy = await node.start("sh", "-c", command, resources={"limits": {"memory": "64Mi"}})

    assert (await greedy.wait()).reason is ExitReason.OOM_KILLED


@with_cgroups
async def test_limit_too_small_to_start_is_a_failed_start(node: Any) -> None:
    with pytest.raises(ContainerStartError, match=r"container init was OOM-killed \(memory limit too low\?\)") as error:
        await node.start("true", resources={"limits": {"memory": "256Ki"}})

    assert error.value.failure is StartFailure.RUN


@with_counted_processes
def test_processes_of_a_program_are_counted(tmp_path: Path) -> None:
    program = BoundProgram(Bounds(tmp_path, processes=9))
    forks = (
        "import os, signal\n"
        "for number in range(99):\n"
        "  try: child = os.fork()\n"
        "  except BlockingIOError: print(number); os.killpg(0, signal.SIGKILL)\n"
        "  child or signal.pause()\n"
        "os.killpg(0, signal.SIGKILL)\n"
    )
    argv = program.argv([PYTHON, "-u", "-c", forks])
    bomb = subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True, start_new_session=True)
    program.end()

    assert (bomb.stdout, bomb.returncode) == ("8\n", -9)


@pytest.mark.usefixtures("no_cgroups")
async def test_without_cgroups_a_process_has_a_limit(node: Any, small_machine: int) -> None:
    neighbour = await node.start("sleep", "infinity")
    greedy = await node.start(PYTHON, "-c", TAKES)

    status = await greedy.wait()

    assert (status.code, status.reason) == (1, ExitReason.ERROR)
    assert "MemoryError" in greedy.log.read_text()
    assert neighbour.is_running


@pytest.mark.parametrize(
    ("resources", "score"),
    [
        pytest.param({}, 1000, id="best effort"),
        # An eighth of what the node says that it has.
        pytest.param({"requests": {"memory": "4Gi"}}, 875, id="burstable"),
    ],
)
async def test_kernel_ends_a_container_before_us(node: Any, resources: Any, score: int) -> None:
    node.memory_bytes = 32 * 2**30

    assert await node.output("cat", SCORE, resources=resources) == f"{score}\n"


async def test_guaranteed_container_goes_no_later_than_we(node: Any) -> None:
    limits = {"limits": {"memory": "64Mi", "cpu": "1"}}

    assert await node.output("cat", SCORE, resources=limits) == OWN_SCORE


async def test_container_cannot_fill_the_disk_with_a_file(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "_LEAST_FILE", 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**20))
    command = "dd if=/dev/zero of=/dev/termination-log bs=1M count=5"
    greedy = await node.start("sh", "-c", command)

    status = await greedy.wait()

    assert status.code == 128 + 25
    assert len(status.message) == 4096


@with_cgroups
async def test_nothing_is_left_of_the_cgroups(node: Any) -> None:
    container = await node.start("sleep", "infinity")
    mine = [Path(file).parent for file in container._bound._group.files()]
    assert all(folder.is_dir() for folder in mine)

    await container.stop(0)

    assert not any(folder.exists() for folder in mine)


@with_cgroups
def test_next_process_removes_the_cgroups_of_a_killed_one(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from simkubelet._internal.bounds import *\n"
        f"program = BoundProgram(Bounds(pathlib.Path({str(tmp_path)!r})))\n"
        "print(*program._group.files(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        folders = [Path(file).parent for file in killed.stdout.readline().split()]
        cgroups.remove_leftovers()
        assert all(folder.is_dir() for folder in folders)
        killed.kill()

    assert cgroups.remove_leftovers()
    assert not any(folder.parent.exists() for folder in folders)


@with_cgroups
def test_what_has_outlived_a_killed_process_ends_with_its_cgroup(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, subprocess, sys; from simkubelet._internal.bounds import *\n"
        f"program = BoundProgram(Bounds(pathlib.Path({str(tmp_path)!r})))\n"
        "one = subprocess.Popen(program.argv(['/bin/sleep', 'infinity']), env={}, start_new_session=True)\n"
        "while not program._group.processes(): pass\n"
        "print(one.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        one = os.pidfd_open(int(killed.stdout.readline()))
        killed.kill()

    assert cgroups.remove_leftovers()
    assert select.select([one], [], [], LIMIT_S)[0]
    os.close(one)


@with_cgroups
def test_cgroup_of_somebody_else_with_a_like_name_stays() -> None:
    [*parents] = filter(None, (hierarchy.parent() for hierarchy in cgroups._hierarchies()))
    unit = parents[0] / f"simkubelet-{os.getpid()}.service"
    (unit / "inner").mkdir(parents=True)
    with subprocess.Popen(["/bin/sleep", "infinity"]) as program:
        try:
            (unit / "inner" / "cgroup.procs").write_text(str(program.pid))
            cgroups.remove_leftovers()
            status = program.poll()
        finally:
            program.kill()
            program.wait()
            (unit / "inner").rmdir()
            unit.rmdir()

    assert status is None


@with_counted_processes
async def test_all_programs_together_leave_processes_to_the_machine(node: Any) -> None:
    container = await node.start("sleep", "infinity")
    together = [Path(file).parents[1] / "pids.max" for file in container._bound._group.files()]
    bounds = [file.read_text() for file in together if file.exists()]
    await container.stop(0)

    assert bounds
    assert all(int(bound) < cgroups.processes_of_machine() for bound in bounds)


@with_cgroups
def test_plugin_beyond_the_bound_is_killed(small_machine: int, tmp_path: Path) -> None:
    program = BoundProgram(Bounds(tmp_path))
    ended = subprocess.run(program.argv([PYTHON, "-c", TAKES]), check=False)
    program.end()

    assert ended.returncode == -9
    assert program.has_lost_memory()


def test_program_keeps_its_process_id_and_its_variables(tmp_path: Path) -> None:
    program = BoundProgram(Bounds(tmp_path))
    argv = program.argv([PYTHON, "-I", "-c", "import os; print(os.getpid(), os.environ['A'])"])
    with subprocess.Popen(argv, env={"A": "1 2"}, stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate()[0] == f"{process.pid} 1 2\n"
    program.end()
