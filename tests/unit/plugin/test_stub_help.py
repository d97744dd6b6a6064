"""The command of the stub: its help shows commands that it takes, and its options take no bytes that are no text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from plugin.cli import plugins
from plugin.stub.behaviour import AnswerWith, EndStream, ListDevices, Register, StopServer, read_command


def test_help_has_an_example_of_each_command() -> None:
    text = CliRunner().invoke(plugins, ["stub", "--help"], prog_name="plugin").output

    commands = [read_command(line) for line in re.findall(r'^ *({"command".*})', text, re.MULTILINE)]

    assert {type(command) for command in commands} == {Register, ListDevices, AnswerWith, EndStream, StopServer}


@pytest.mark.parametrize("option", ["--resource", "--socket", "--device", "--empty"])
def test_option_that_is_no_text_is_refused(option: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(plugins, ["stub", "--kubelet-dir", str(tmp_path), option, "a\udcff"])

    assert done.exit_code == 2
    assert f"Invalid value for {option}" in done.stderr
