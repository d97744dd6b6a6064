"""What is mounted into a node's folder is left alone, also where a folder around it is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.decoy import Decoy
from tests.support.patience import LIMIT_S

# Arguments: the node's folder, the decoy.
ATTACK = """
import os, subprocess, sys
from contextlib import suppress
from pathlib import Path
from simkubelet.node_tree import node_tree

base, decoy = map(Path, sys.argv[1:])
tree = node_tree(base)
for place in ("root/mnt", "root/a/b/mnt", "device-plugins"):
    (base / place).mkdir(parents=True)
    subprocess.run(["mount", "--bind", decoy, base / place], check=True)
(base / "root/l").symlink_to("mnt/l")
for folder in ("/mnt", "/a/b/mnt", "/var/lib/kubelet/device-plugins", "/l"):
    for act in (
        lambda: tree.open(f"{folder}/new", "x").close(),
        lambda: tree.open(f"{folder}/f", "r+").write("x"),
        lambda: tree.make_folder(f"{folder}/new"),
        lambda: tree.date(f"{folder}/f", 0.0),
        lambda: tree.unlink(f"{folder}/f"),
        lambda: tree.clear(folder),
        lambda: tree.remove_folder(f"{folder}/d"),
        lambda: tree.remove_folder(folder),
    ):
        with suppress(OSError):
            act()
            print("done in", folder)
for folder in ("/a", "/"):
    with suppress(OSError):
        tree.remove_folder(folder)
        print("removed", folder)
print("f" in os.listdir(base / "root/mnt"))
"""


def namespace() -> list[str]:
    """How a program gets a mount namespace, as root or with a user namespace."""
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    try:
        trial = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("takes unshare (util-linux)")
    if trial.returncode:
        pytest.skip(trial.stderr)
    return unshare


def openat2_is_there() -> bool:
    release = os.uname().release.split(".")
    return (int(release[0]), int(release[1])) >= (5, 6)


@pytest.mark.skipif(not openat2_is_there(), reason="the kernel has no openat2")
def test_nothing_is_done_in_what_is_mounted_in_a_tree(tmp_path: Path) -> None:
    decoy = Decoy(tmp_path / "decoy")
    (tmp_path / "node" / "root").mkdir(parents=True)
    argv = [*namespace(), sys.executable, "-c", ATTACK, str(tmp_path / "node"), str(decoy.place)]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert (done.stderr, done.stdout) == ("", "True\n")
    decoy.check()
