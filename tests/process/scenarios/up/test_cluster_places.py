"""Folders of running clusters: a name is taken once, what a killed cluster left is cleared, nothing stays behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from scenarios.up import running


def test_what_a_killed_cluster_left_is_cleared(home: Path) -> None:
    code = (
        "import os, signal; from scenarios.up import running\n"
        "with running.claimed('one') as folder:\n"
        "    (folder / 'node-1').mkdir(); (folder / 'kubeconfig').touch(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (home / "one" / "node-1").exists()

    with running.claimed("one") as folder:
        assert [path.name for path in folder.iterdir()] == [".simkubelet"]


def test_kubeconfig_of_a_killed_cluster_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config"
    code = (
        "import os, signal, sys; from pathlib import Path; from scenarios.up import running\n"
        "with running.written(Path(sys.argv[1]), 'kind: Old\\nlong: yes'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert "kind: Old" in path.read_text()

    with running.written(path, "kind: New\n"):
        assert path.read_text().splitlines()[1:] == ["kind: New"]
