"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

directory: Final = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Folder of the machine; $XDG_RUNTIME_DIR/fakegpu or /tmp/fakegpu-<uid> if not given.",
)
gpu: Final = click.argument("gpu", metavar="GPU")
