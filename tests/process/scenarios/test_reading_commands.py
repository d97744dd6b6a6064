"""Commands that read stories start no program, open no connection and write no file, whatever the stories say.

The oracle is the interpreter's audit hook, in a process that runs the command.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.patience import PROGRAM_LIMIT_S
from tests.support.short_paths import short_place

WATCHED = """
import os, sys

ACTS = (
    *("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.kill"),
    *("socket.connect", "socket.bind", "socket.sendto", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link"),
    *("os.symlink", "os.truncate", "os.chmod", "os.chown", "os.utime", "shutil.rmtree"),
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

def watch(event, arguments):
    if event in ACTS or event == "open" and (arguments[2] or 0) & WRITES:
        os.write(2, f"acted: {event} {arguments}\\n".encode())

sys.dont_write_bytecode = True
sys.addaudithook(watch)
from simkubelet.cli import main
main(sys.argv[1:])
"""

STORY = """\
name: acts
description: It runs commands, writes files and starts plugins when it is played.
nodes:
  - name: node-1
    runtime: process
    gpus: {profile: t4, count: 1}
    files: [/etc/gophers/g1, {path: /etc/l, link: /etc/gophers}]
plugins:
  - name: mine
    command: [touch, FOLDER/started]
steps:
  - createFile: {path: /etc/gophers/g2}
  - removeFolder: {path: /etc/gophers}
  - runCommand: {command: [touch, FOLDER/ran]}
"""


def acts_of(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("check", "acts.yaml"), id="check"),
        pytest.param(("list",), id="list"),
        pytest.param(("show", "acts.yaml"), id="show"),
        pytest.param(("schema",), id="schema"),
        pytest.param(("bugs",), id="bugs"),
    ],
)
def test_reading_command_acts_on_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "acts.yaml").write_text(STORY.replace("FOLDER", str(tmp_path)))

    assert acts_of(tmp_path, *command) == (0, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["acts.yaml"]


def test_played_story_is_seen_to_act(tmp_path: Path) -> None:
    (tmp_path / "acts.yaml").write_text(STORY.replace("FOLDER", str(tmp_path)))

    # Its sockets need a shorter path than that of the test.
    with TemporaryDirectory(prefix="sk-", dir=short_place()) as short:
        assert "acted: subprocess.Popen" in acts_of(tmp_path, "run", "acts.yaml", "--dir", short)[1]
