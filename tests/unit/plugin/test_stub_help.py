"""The help of the stub shows commands that it takes."""

from __future__ import annotations

import re

from click.testing import CliRunner

from plugin.cli import plugins
from plugin.stub.behaviour import AnswerWith, EndStream, ListDevices, Register, StopServer, read_command


def test_help_has_an_example_of_each_command() -> None:
    text = CliRunner().invoke(plugins, ["stub", "--help"], prog_name="plugin").output

    commands = [read_command(line) for line in re.findall(r'^ *({"command".*})', text, re.MULTILINE)]

    assert {type(command) for command in commands} == {Register, ListDevices, AnswerWith, EndStream, StopServer}
