"""Write ``docs/cli.md``: every command and option of ``simkubelet`` and ``fakegpu``, from the commands themselves.

With ``--check`` nothing is written and the exit status says whether the committed page is fresh.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from fakegpu.cli import cli as fakegpu_commands
from plugin.cli import plugins
from simkubelet.cli import commands as simkubelet_commands
from tools.generate.committed_page import escaped, in_cell, write_or_check

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
HEAD: Final = """\
# Commands

Written by `python -m tools.generate.cli_reference` from the commands; do not edit. `COMMAND --help` prints the same
in a terminal. Exit statuses: [CONTRIBUTING.md](../CONTRIBUTING.md#exit-status).
"""
_AS_WRITTEN: Final = "\b\n"
"""Click's mark of a paragraph whose lines stay as they are."""
_HIDDEN: Final = "<!-- not played: what --help prints; the pages about the command play it -->"


def command_lines(path: str, command: click.Command) -> Iterator[str]:
    """Yield the section of a command and, of a group, those of its subcommands."""
    context = click.Context(command, info_name=path)
    yield from ("", f"{'#' * min(4, 2 + path.count(' '))} {path}", "")
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield f"`{usage}`"
    yield from help_lines(inspect.cleandoc(command.help or ""))
    yield from help_lines(command.epilog or "")
    yield from option_lines(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            # This command passes what follows on, to a group of its own.
            is_passed_on = (path, name) == ("simkubelet", "plugin")
            if (subcommand := plugins if is_passed_on else command.get_command(context, name)) is not None:
                yield from command_lines(f"{path} {name}", subcommand)


def help_lines(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; lines that stay as they are become a block."""
    for paragraph in filter(None, re.split(r"\n\s*\n", text.strip())):
        yield ""
        if not paragraph.startswith(_AS_WRITTEN):
            yield escaped(" ".join(paragraph.split()))
            continue
        title, *lines = paragraph.removeprefix(_AS_WRITTEN).splitlines()
        if not title.startswith(" ") and lines:
            yield from (escaped(title), "")
        else:
            lines = [title, *lines]
        yield from (_HIDDEN, "```text", *inspect.cleandoc("\n" + "\n".join(lines)).splitlines(), "```")


def option_lines(context: click.Context) -> Iterator[str]:
    """Yield the table of a command's options."""
    asked = [one for one in context.command.get_params(context) if isinstance(one, click.Option)]
    records = [record for one in asked if (record := one.get_help_record(context))]
    options = [record for record in records if not record[0].endswith("--help")]
    if options:
        yield from ("", "| option | meaning |", "| --- | --- |")
        yield from (f"| `{in_cell(names)}` | {in_cell(escaped(about))} |" for names, about in options)


def page() -> str:
    """Return the page as it should be."""
    both = {"simkubelet": simkubelet_commands, "fakegpu": fakegpu_commands}
    return HEAD + "".join(f"{line}\n" for name, command in both.items() for line in command_lines(name, command))


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "cli_reference", __doc__))
