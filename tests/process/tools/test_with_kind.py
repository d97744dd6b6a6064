"""The script that puts docker and kind at hand, with scripts in their place."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.patience import LIMIT_S

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "with_kind"
BASICS = "bash cat dirname env grep mkdir readlink rm setsid sh sleep tail timeout touch xargs"


class Machine:
    """A machine on which programs are scripts; `folder` is where they keep what they want."""

    def __init__(self, folder):
        self.folder = folder
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in BASICS.split():
            (self.programs / name).symlink_to(shutil.which(name))
        # Not beside recipes for node images.
        (folder / "checkout" / "tools").mkdir(parents=True)
        self.script = shutil.copy(SCRIPT, folder / "checkout" / "tools")

    def has(self, program, script):
        file = self.programs / program
        file.write_text(f"#!/bin/sh\ncd {self.folder}\n{script}\n")
        file.chmod(0o755)

    def run(self, *command):
        environment = {"PATH": str(self.programs), "XDG_CACHE_HOME": str(self.folder / "cache")}
        return subprocess.run(
            [self.script, *command], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    made.has("kind", "exit 0")
    made.has("id", "echo 0")
    return made


@pytest.mark.parametrize("arguments", [pytest.param([], id="nothing"), pytest.param(["-x"], id="unknown option")])
def test_wrong_call_shows_usage_and_exits_2(machine, arguments):
    done = machine.run(*arguments)

    assert done.returncode == 2
    assert done.stderr.startswith("Usage: tools/with_kind")


def test_daemon_that_answers_is_used(machine):
    machine.has("docker", "exit 0")

    done = machine.run("sh", "-c", "echo played; exit 7")

    assert (done.returncode, done.stdout, done.stderr) == (7, "played\n", "")


@pytest.mark.parametrize("status", [0, 1])
def test_daemon_that_was_started_is_ended(machine, status):
    machine.has("docker", "case $1 in info) test -e answers;; esac")
    serve = "echo $$ >cache/simkubelet/docker/pid; touch answers; while :; do sleep 0.1; done"
    machine.has("dockerd", f"trap 'rm answers; exit' TERM; {serve}")

    done = machine.run("sh", "-c", f"test -e {machine.folder}/answers && echo played; exit {status}")

    assert (done.returncode, done.stdout) == (status, "played\n")
    assert not (machine.folder / "answers").exists()


def test_daemon_that_does_not_start_is_tried_twice(machine):
    machine.has("docker", "exit 1")
    machine.has("dockerd", "echo tried >>tries; echo no room; exit 1")

    done = machine.run("sh", "-c", "echo played")

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-1] == "error: starting dockerd failed twice; what it said stands above"
    assert done.stderr.count("no room") == 2
    assert (machine.folder / "tries").read_text() == "tried\ntried\n"


def test_number_that_a_killed_daemon_left_hurts_nobody(machine):
    stale = machine.folder / "cache" / "simkubelet" / "docker" / "pid"
    stale.parent.mkdir(parents=True)
    stale.write_text("1\n")
    machine.has("docker", "case $1 in info) test -e answers;; esac")
    machine.has("dockerd", "if [ -e cache/simkubelet/docker/pid ]; then exit 1; fi; touch answers")

    assert machine.run("sh", "-c", "exit 0").returncode == 0


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (
            "docker",
            "error: there is no program 'dockerd': install it"
            " (Debian, Ubuntu: sudo apt-get install docker.io iptables)",
        ),
        ("kind", "error: there is no program 'kind', and no Go to build it: install one of them"),
    ],
)
def test_missing_program_gets_one_line_and_exit_3(machine, missing, words):
    machine.has("docker", "exit 0")
    (machine.programs / missing).unlink()

    done = machine.run("sh", "-c", "echo played")

    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"{words}\n")
