"""`simkubelet up` as a user runs it, in a process and a folder of its own, with kubectl beside it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import LIMIT_S, eventually
from tests.support.short_paths import short_place

_SAID = "that was all"
_SESSIONS = {"SIMKUBELET_DRA_DRIVER": "dra", "SIMKUBELET_NVIDIA_DRA_DRIVER": "nvidia_dra"}


@dataclass
class LiveCluster:
    """A cluster that runs, and what its user can do.

    Attributes:
        scratch: the folder of everything that it makes.
        introduction: what it printed when it was up.
    """

    scratch: Path
    process: subprocess.Popen[str]
    introduction: str
    kubeconfig: Path
    env: Mapping[str, str] = field(repr=False)

    def run(self, *argv: str, given: object = None, fails: bool = False) -> str:
        """What a command of another terminal says: on standard output, or where it `fails` on standard error."""
        done = subprocess.run(
            argv,
            env=self.env,
            cwd=self.scratch,
            input=None if given is None else given if isinstance(given, str) else json.dumps(given),
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{shlex.join(argv)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stderr if fails else done.stdout

    def kubectl(self, command: str, given: object = None, fails: bool = False) -> str:
        """What kubectl says to a command line."""
        return self.run(go_client("SIMKUBELET_KUBECTL"), *shlex.split(command), given=given, fails=fails)

    def watched(self, kind: str) -> str:
        """The first object of a kind that is there or comes, as kubectl names it; empty where none comes in time."""
        watch = [go_client("SIMKUBELET_KUBECTL"), "get", kind, "--watch", "--output=name"]
        with subprocess.Popen(watch, env=self.env, cwd=self.scratch, stdout=subprocess.PIPE, text=True) as process:
            alarm = threading.Timer(LIMIT_S, process.kill)
            alarm.start()
            try:
                assert process.stdout is not None
                return process.stdout.readline().strip()
            finally:
                alarm.cancel()
                process.kill()

    def apply(self, api: str, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        """Let kubectl apply an object."""
        self.kubectl("apply -f -", {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec})

    def run_with_claim(self, name: str, command: str, **source: str) -> str:
        """Run a pod with a claim; what its container says before it sleeps.

        Args:
            name: the pod's.
            command: what the container's shell runs.
            source: ``resourceClaimName`` or ``resourceClaimTemplateName``.
        """
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", f"{command}; echo {_SAID}; exec sleep 999"],
            "resources": {"claims": [{"name": "gpu"}]},
        }
        spec = {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", **source}],
            "terminationGracePeriodSeconds": 1,
        }
        self.apply("v1", "Pod", name, spec)
        self.wait_until_ready(name)
        eventually(lambda: _SAID in self.kubectl(f"logs {name}"))
        return self.kubectl(f"logs {name}")

    def command(self, command: str, fails: bool = False) -> str:
        """What `simkubelet` or `fakegpu` says in another terminal."""
        program, *arguments = shlex.split(command)
        return self.run(sys.executable, "-m", program, *arguments, fails=fails)

    def get(self, what: str) -> Any:
        """An object or a list, as JSON."""
        return json.loads(self.kubectl(f"get {what} -o json"))

    def wait(self, what: str, path: str, value: object) -> None:
        """Wait until a field has a value; `path` as kubectl names it, with dots in names escaped."""
        self.kubectl(f"wait {what} --for=jsonpath='{{{path}}}'={value} --timeout={LIMIT_S}s")

    def wait_until_ready(self, pod: str) -> None:
        """Wait until a pod has the condition Ready."""
        self.kubectl(f"wait pod/{pod} --for=condition=Ready --timeout={LIMIT_S}s")

    @property
    def server(self) -> str:
        found = re.search(r"server: (\S+)", self.kubeconfig.read_text())
        assert found is not None
        return found[1]

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> str:
        """End it as Ctrl-C does; what it says on standard error."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=LIMIT_S)[1]

    def leftovers(self) -> list[str]:
        """Files below its folder, and processes that were started with it."""
        mark = f"XDG_RUNTIME_DIR={self.scratch}".encode()
        left = [str(path) for path in self.scratch.rglob("*") if not path.is_dir()]
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    left.append((entry / "cmdline").read_text())
            except OSError:
                continue
        return left


def go_client(variable: str) -> str:
    """A program in Go that a nox session builds and names."""
    binary = os.environ.get(variable)
    if not binary:
        pytest.skip(f"{variable} is not set: run nox -s {_SESSIONS.get(variable, 'clients')}, which builds it")
    return binary


def environment(scratch: Path) -> dict[str, str]:
    home = {"TMPDIR": str(scratch), "XDG_RUNTIME_DIR": str(scratch), "HOME": str(scratch), "COLUMNS": "200"}
    return {**os.environ, **home}


@contextmanager
def live_cluster(options: str = "", prefix: Sequence[str] = ()) -> Iterator[LiveCluster]:
    """A cluster until the end of the block, by then ended as its user would; `prefix` is a program that starts it."""
    with tempfile.TemporaryDirectory(prefix="up-", dir=short_place()) as folder:
        env = environment(Path(folder))
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "simkubelet", "up", *shlex.split(options)],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            introduction = _introduction(process, has_page="--web" in options)
            found = re.search(r"export KUBECONFIG=(\S+)", introduction)
            assert found is not None, introduction
            kubeconfig = Path(found[1])
            yield LiveCluster(Path(folder), process, introduction, kubeconfig, {**env, "KUBECONFIG": str(kubeconfig)})
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT_S)


def _introduction(process: subprocess.Popen[str], has_page: bool) -> str:
    """The lines that a running cluster prints; the first has the number of nodes, the last may be a page, or root's."""
    assert process.stdout is not None
    first = process.stdout.readline()
    found = re.search(r"(\d+) nodes?,", first)
    if found is None:
        raise AssertionError(f"{first}{process.communicate(timeout=LIMIT_S)}")
    return first + "".join(process.stdout.readline() for _ in range(int(found[1]) + 1 + has_page + (os.geteuid() == 0)))
