"""One kind cluster for all tests here: made before the first, deleted after the last.

``KIND_NODE_IMAGE`` names the node image, kind's default where it is not set.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def _simkubelet(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simkubelet", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    name, kind = f"sk-e2e-{os.getpid()}", shutil.which("kind")
    assert kind is not None, "kind has to be on PATH"
    image = os.environ.get("KIND_NODE_IMAGE")
    chosen = ("--image", image) if image else ()
    subprocess.run([kind, "create", "cluster", "--name", name, *chosen, "--wait", "180s"], check=True, timeout=500)
    yield name
    subprocess.run([kind, "delete", "cluster", "--name", name], check=True, timeout=120)


@pytest.fixture
def run(cluster: str) -> Run:
    """Plays stories on the cluster: the arguments that follow ``simkubelet run``."""
    return lambda *arguments: _simkubelet("run", *arguments, "--cluster", cluster)
