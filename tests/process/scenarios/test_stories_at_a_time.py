"""Several stories at a time in one process, in worlds that do what their story's name says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

STORY: Final = """
name: nothing
description: Nothing happens.
plugins: [{name: gpu, builtin: stub, serves: {resource: example.com/gpu, devices: [gpu-0]}}]
steps: [{expect: {node: node-1, allocatable: {example.com/gpu: 1}}}]
"""
PLAYS: Final = """
import asyncio, pathlib, resource, sys
from scenarios.play.job import Job, Options, load, play_job
played = asyncio.run(play_job(Job(load(pathlib.Path(sys.argv[1])), Options()), lambda title: None))
print(played.verdict.outcome, *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.slow
def test_story_is_played_with_all_open_files_that_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "nothing.yaml").write_text(STORY)
    argv = ["prlimit", "--nofile=60:200", sys.executable, "-c", PLAYS, str(tmp_path / "nothing.yaml")]

    done = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert done.stdout == "valid 200 200\n"
