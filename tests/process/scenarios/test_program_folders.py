"""A story's programs find their files in the story's folder, wherever it is played from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scenarios.api import play
from scenarios.evaluation.verdict import Outcome
from scenarios.story.document import load

STORY = """
name: story
description: x
plugins:
- {name: own, command: [python, plugin.py, --resource, example.com/own]}
- {name: script, command: [bin/plugin, --resource, example.com/script]}
- {name: bundled, builtin: generic, args: [--config, seat.yaml]}
steps:
- expect: {node: node-1, capacity: {example.com/own: 1, example.com/script: 1, example.com/seat: 1}}
"""
PLUGIN = """
import sys
from simkubelet._internal import bundle
assert open("seat.yaml").read()
stub = ["stub", "--socket", sys.argv[2][-3:] + ".sock", "--device", "a", *sys.argv[1:]]
sys.exit(bundle.load("plugin", "cli").main(stub))
"""


@pytest.fixture
def story(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "plugin.py").write_text(PLUGIN)
    script = tmp_path / "bin" / "plugin"
    script.write_text('#!/bin/sh\nset -e\ntest -f seat.yaml\nexec "$PYTHON" plugin.py "$@"\n')
    script.chmod(0o755)
    (tmp_path / "seat.yaml").write_text("resource: example.com/seat\ncount: 1\n")
    (tmp_path / "story.yaml").write_text(STORY)
    return tmp_path / "story.yaml"


async def test_files_are_found_beside_the_story(
    story: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setenv("PYTHON", sys.executable)

    verdict, _ = await play(load(story))

    assert verdict.outcome is Outcome.VALID, verdict.reason
