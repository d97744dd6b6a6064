"""NVIDIA's own nvidia-smi and ours on fake machines.

``real`` runs the version that ours follows, ``every_real`` each version in turn, from the folder that the session `smi`
fetched them into and names in the environment; without it the tests that need them are skipped. ``ours`` runs the
machine's own nvidia-smi. All return what the program wrote and its exit status.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakegpu import Machine
from tests.support.patience import PROGRAM_LIMIT_S

REAL = "SIMKUBELET_NVIDIA_SMI"
FOLLOWED, *NEWER = ("535", "550")
Make = Callable[..., Machine]


@dataclass(frozen=True)
class Answer:
    text: str
    status: int

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


Ask = Callable[..., Answer]


def run(machine: Machine, program: str, *arguments: str) -> Answer:
    done = subprocess.run(
        [program, *arguments],
        env=os.environ | machine.environment() | {"TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PROGRAM_LIMIT_S,
    )
    return Answer(done.stdout, done.returncode)


@pytest.fixture(autouse=True)
def _no_machine_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAKEGPU_SEGMENT", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(profile: str = "h100-80gb", count: int = 2) -> Machine:
        return Machine.create(tmp_path / f"{profile}-{count}", profile=profile, count=count, seed="test")

    return made


def asking(version: str) -> Ask:
    folder = os.environ.get(REAL)
    if folder is None:
        pytest.skip(f"NVIDIA's nvidia-smi: the session `smi` fetches it and sets {REAL}")

    def ask(machine: Machine, *arguments: str) -> Answer:
        return run(machine, str(Path(folder, f"nvidia-smi-{version}")), *arguments)

    return ask


@pytest.fixture
def real() -> Ask:
    return asking(FOLLOWED)


@pytest.fixture(params=[FOLLOWED, *NEWER])
def every_real(request: pytest.FixtureRequest) -> Ask:
    return asking(request.param)


@pytest.fixture
def ours() -> Ask:
    def ask(machine: Machine, *arguments: str) -> Answer:
        return run(machine, str(machine.directory / "bin" / "nvidia-smi"), *arguments)

    return ask
