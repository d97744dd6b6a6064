"""What a plugin wrote last, for the messages about its end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_READ_BYTES: Final = 2000


def last_line(log: Path) -> str:
    """The last line of a log; empty where it has none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _READ_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return text.strip().rpartition("\n")[2].strip()
