"""As root, too, nothing on the host changes outside a node's own folder.

The stories are played in a mount namespace whose `/dev`, `/etc`, `/run`, `/tmp` and `/var/lib` are copies, so that no
other process of the machine changes them: each is looked at before and after, and every difference is ours.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from simkubelet.model.errors import HostError
from simkubelet.runtime.bubblewrap import check_bubblewrap
from tests.support.attacks import Victim
from tests.support.patience import PROGRAM_LIMIT_S

CATALOG = Path(__file__).resolve().parent.parent.parent / "scenarios" / "catalog"
STORIES = ("plugins/cdi-gives-a-pod-its-gpus", "nvidia/cdi-gives-a-pod-its-mig-device", "nvidia/mps")

# Arguments: a folder for the copies, then a program and its arguments.
COPY = """
set -e
scratch=$1; shift
# The rest of the host cannot be changed, even where the test fails.
mount --bind "${scratch%/*}" "${scratch%/*}"
mount -o remount,bind,ro /
for folder in dev etc run tmp var/lib; do
    mkdir -p "$scratch/$folder"
    mount -t tmpfs skt "$scratch/$folder"
done
for folder in dev etc run; do cp -a "/$folder/." "$scratch/$folder/" 2>/dev/null || true; done
for entry in /var/lib/*; do mkdir "$scratch/var/lib/${entry##*/}"; done
for folder in dev etc run tmp var/lib; do mount --bind "$scratch/$folder" "/$folder"; done
mkdir -p /etc/ssl/private; echo key >/etc/ssl/private/skt.key; chmod 600 /etc/ssl/private/skt.key
exec "$@"
"""

PLAY = """
import os, signal, subprocess, sys
from pathlib import Path

def inventory():
    found = {}
    for top in ("/dev", "/etc", "/run", "/tmp", "/var/lib"):
        for folder, folders, files in os.walk(top):
            for path in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):
                status = os.lstat(path)
                link = os.readlink(path) if os.path.islink(path) else None
                mtime = status.st_mtime_ns if os.path.isdir(path) and link is None else None
                found[path] = (oct(status.st_mode), status.st_uid, status.st_rdev, link, mtime)
    return found

folder, fifo, *stories = sys.argv[1:]
run = [sys.executable, "-m", "simkubelet", "run", "--dir", folder]
before = inventory()
for story in stories:
    done = subprocess.run([*run, story], capture_output=True, text=True)
    print(done.stdout if done.returncode else "passed", flush=True)
killed = subprocess.Popen([*run, stories[0]], env={**os.environ, "SKT_FIFO": fifo}, stdout=subprocess.DEVNULL)
with open(fifo) as file:
    assert file.readline() == "up\\n"
    killed.kill()
    killed.wait()
    # The end of the file comes when the plugin is gone too.
    file.read()
after = inventory()
for path in sorted(before.keys() | after.keys()):
    if before.get(path) != after.get(path):
        print("changed", path, before.get(path), after.get(path))
"""

STORY = """
name: foreign
description: A foreign plugin writes wherever it can.
nodes:
  - name: node-1
    gpus: {profile: t4, count: 1}
    runtime: process
    files: [/etc/gophers/g1, /dev/skt0, /run/skt/file]
plugins:
  - name: foreign
    command: [sh, FOLDER/plugin]
steps:
  - expect: {node: node-1, capacity: {lixueduan.com/gopher: 1}}
  - createFile: {path: /dev/skt1}
  - createFile: {path: /var/lib/skt/file}
  - removeFile: {path: /dev/skt0}
  - apply:
      apiVersion: v1
      kind: Pod
      metadata: {name: attacker}
      spec:
        restartPolicy: Never
        containers:
          - {name: main, image: none, command: ATTACK}
  - expect: {pod: attacker, phase: Succeeded}
  - killPlugin: {plugin: foreign}
  - expect: {node: node-1, capacity: {lixueduan.com/gopher: 1}}
"""

PLUGIN = """
for folder in / /dev /dev/shm /etc /etc/cdi /etc/ssl /run /run/cdi /tmp /var/tmp /var/lib /usr; do
    touch "$folder/skt-wrote"; mkdir "$folder/skt-made"; ln -s /nowhere "$folder/skt-link"
done 2>/dev/null
rm -f /dev/null /dev/zero /etc/hosts; mv /dev/full /dev/null; chmod 600 /dev/zero /etc/hosts; ln -sf x /dev/null
chmod 600 /dev/nvidia0
succeeded=$(ATTACK) || exit 1
[ -z "$succeeded" ] || { echo "succeeded: $succeeded"; exit 1; }
if [ -n "$SKT_FIFO" ]; then exec 9>"$SKT_FIFO"; echo up >&9; fi
exec simkubelet plugin gopher
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("takes root and unshare")
    if Path(__file__).is_relative_to("/tmp"):
        pytest.skip("the checkout lies in a folder that is covered")
    try:
        check_bubblewrap()
    except HostError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="skt-", dir="/var/tmp") as name:
        yield Path(name)


@pytest.fixture
def victim(folder: Path) -> Iterator[Victim]:
    with Victim(folder) as victim:
        yield victim


@pytest.mark.slow
def test_nothing_of_the_host_changes(folder: Path, victim: Victim) -> None:
    nodes, story, fifo = folder / "nodes", folder / "foreign.yaml", folder / "fifo"
    nodes.mkdir()
    os.mkfifo(fifo)
    attack = [*victim.argv("python"), "--fail"]
    story.write_text(STORY.replace("FOLDER", str(folder)).replace("ATTACK", json.dumps(attack)))
    (folder / "plugin").write_text(PLUGIN.replace("ATTACK", shlex.join(victim.argv())))
    play = [
        sys.executable,
        "-c",
        PLAY,
        str(nodes),
        str(fifo),
        str(story),
        *(f"{CATALOG}/{one}.yaml" for one in STORIES),
    ]

    done = subprocess.run(
        [
            "/usr/bin/env",
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            COPY,
            "sh",
            str(folder / "host"),
            *play,
        ],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
        check=False,
    )

    assert (done.stdout.splitlines(), done.stderr) == (["passed"] * (1 + len(STORIES)), "")
