"""What a user or a machine can get wrong with a kind cluster: one line, the right status, nothing left."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from faker import Faker

from tests.support.patience import LIMIT_S

_RUN = (sys.executable, "-m", "simkubelet", "run", "gopher-pending", "--backend", "kind")
_DAEMON_UP = "case $1 in version) exit 0;; esac"


class Machine:
    """A machine whose `docker` and `kind` are scripts; what they are called with is kept."""

    def __init__(self, folder: Path, cluster: str) -> None:
        self.cluster = cluster
        self.programs, self.calls = folder / "bin", folder / "calls"
        self.temporary = folder / "tmp"
        for one in (self.programs, self.temporary):
            one.mkdir()
        self.calls.touch()

    def has(self, program: str, script: str) -> None:
        file = self.programs / program
        file.write_text(f'#!/bin/sh\necho "{program} $*" >>"{self.calls}"\n{script}\n')
        file.chmod(0o755)

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*_RUN, "--cluster", self.cluster, *options],
            env={"PATH": f"{self.programs}:/usr/bin:/bin", "TMPDIR": str(self.temporary), "HOME": os.environ["HOME"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str) -> tuple[int, str]:
        process = self.start(*options)
        _, said = process.communicate(timeout=LIMIT_S)
        return process.returncode, said

    def left(self) -> list[str]:
        return [entry.name for entry in self.temporary.iterdir()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    # Names of clusters are the machine's, and Faker gives every test process the same.
    return Machine(tmp_path, f"test-{uuid.uuid4()}")


def test_a_docker_without_permission_is_reported_in_one_line(machine: Machine) -> None:
    machine.has("docker", "echo 'permission denied while trying to connect to the Docker daemon socket' >&2; exit 1")

    status, said = machine.run()

    assert status == 3
    assert said == ("error: the docker daemon lets this user do nothing; join its socket's group, or use sudo\n")
    assert not machine.left()


def test_a_docker_without_a_daemon_is_reported_in_one_line(machine: Machine) -> None:
    machine.has("docker", "echo 'Cannot connect to the Docker daemon at unix:///x. Is it running?' >&2; exit 1")

    status, said = machine.run()

    assert (status, said) == (3, "error: no docker daemon answers; start it, or name its socket in DOCKER_HOST\n")


def test_a_missing_kind_is_reported_with_where_to_get_it(machine: Machine) -> None:
    machine.has("docker", _DAEMON_UP)

    status, said = machine.run()

    assert status == 3
    assert said.startswith("error: there is no program 'kind'; install it")
    assert len(said.splitlines()) == 1


def test_a_cluster_that_cannot_be_created_is_deleted_and_the_cause_is_reported(machine: Machine, faker: Faker) -> None:
    cause = faker.sentence()
    machine.has("docker", _DAEMON_UP)
    machine.has("kind", f"case $1 in create) echo 'ERROR: failed to create cluster: {cause}' >&2; exit 1;; esac")

    status, said = machine.run("--keep")

    assert status == 3
    assert said == f"error: kind create cluster: ERROR: failed to create cluster: {cause}\n"
    assert any(f"delete cluster --name {machine.cluster}" in call for call in machine.calls.read_text().splitlines())
    assert not machine.left()


def test_an_interrupted_creation_makes_its_containers_before_the_cluster_is_deleted(
    machine: Machine, tmp_path: Path
) -> None:
    making, waiting, told = (tmp_path / name for name in ("making", "waiting", "told"))
    for fifo in (making, waiting, told):
        os.mkfifo(fifo)
    makes = f"""trap 'echo ended >>{machine.calls}; exit' TERM
        echo x >{making}; read line <{told}; echo made >>{machine.calls}"""
    waits = f"""trap 'echo x >{told}; exit' TERM; echo x >{waiting}; while :; do sleep 0.1; done"""
    machine.has("docker", f"{_DAEMON_UP}; case $1 in run) {makes};; exec) {waits};; esac")
    machine.has("kind", "case $1 in create) docker run a-node & docker exec a-node & wait;; esac")
    run = machine.start("--keep")
    making.read_text()
    waiting.read_text()

    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=LIMIT_S)

    assert run.returncode == 130
    assert "interrupted; everything was ended" in said
    *_, last_of_kind, deletion = machine.calls.read_text().splitlines()
    assert last_of_kind == "made"
    assert deletion.startswith(f"kind delete cluster --name {machine.cluster}")
    assert not machine.left()


def test_two_runs_cannot_use_one_cluster(machine: Machine, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    machine.has("docker", f"echo >{begun}; exec sleep 60")
    first = machine.start()
    begun.read_text()

    status, said = machine.run()
    first.send_signal(signal.SIGINT)
    _, told = first.communicate(timeout=LIMIT_S)

    assert status == 2
    assert said == f"error: --cluster: another run uses the cluster '{machine.cluster}'; wait for it, or name another\n"
    assert first.returncode == 130
    assert "interrupted; everything was ended" in told
    assert not machine.left()


def test_a_cluster_takes_one_story_at_a_time(machine: Machine) -> None:
    status, said = machine.run("-n", "2")

    assert status == 2
    assert "-n: a cluster takes one story at a time" in said
    assert not machine.calls.read_text()


def test_a_plugin_that_cannot_run_on_a_node_is_reported_before_anything_starts(
    machine: Machine, tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text("#!/no/such/shell\n")
    plugin.chmod(0o755)

    status, said = machine.run("--plugin", f"gopher={plugin}")

    assert status == 2
    assert said == (
        f"error: plugin 'gopher': the interpreter of {plugin}: no program '/no/such/shell'; "
        "give its path or put its folder on PATH\n"
    )
    assert not machine.calls.read_text()


def test_an_installation_without_the_extra_says_what_to_install(machine: Machine, tmp_path: Path) -> None:
    # Found first and not there, as far as the import can tell.
    (tmp_path / "kr8s.py").write_text("raise ModuleNotFoundError(\"No module named 'kr8s'\", name='kr8s')")
    done = subprocess.run(
        _RUN, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=LIMIT_S
    )

    assert done.returncode == 3
    assert done.stderr == (
        "error: --backend kind: the Python package kr8s is missing; install it with: pip install kr8s\n"
    )
