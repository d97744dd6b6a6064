"""The command line: a module for each group of commands, loaded when one of them is asked for.

`cli` is the command. Here are the options and the argument that several groups share.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from .completion import gpus
from .main import cli

__all__ = ["DEEPEST", "cli", "directory_option", "gpu_argument", "output_option"]

DEEPEST: Final = 400
"""Names in the path of a machine, and in that of a file in it: Python makes missing folders by recursion."""


def _checked(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and len(value.parts) > DEEPEST:
        raise click.BadParameter(f"a path of {len(value.parts)} names; choose one of at most {DEEPEST}")
    return value


directory_option: Final = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    callback=_checked,
    help="Folder of the machine; $XDG_RUNTIME_DIR/fakegpu or /tmp/fakegpu-<uid> if not given.",
)
output_option: Final = click.option(
    "-o",
    "--output",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or for programs.",
)
gpu_argument: Final = click.argument("gpu", metavar="GPU", shell_complete=gpus)
