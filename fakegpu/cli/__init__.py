"""The command line: a module for each group of commands, loaded when one of them is asked for.

`cli` is the command. Here are the option and the argument that several groups share.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from .main import cli

__all__ = ["cli", "directory_option", "gpu_argument"]

directory_option: Final = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Folder of the machine; $XDG_RUNTIME_DIR/fakegpu or /tmp/fakegpu-<uid> if not given.",
)
gpu_argument: Final = click.argument("gpu", metavar="GPU")
