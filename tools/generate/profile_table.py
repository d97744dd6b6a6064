"""Write the table of GPU models in ``docs/profiles.md``, from the bundled profiles.

With ``--check`` nothing is written and the exit status says whether the committed page is fresh.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from fakegpu import load_profile, profile_names
from tools.generate.committed_page import in_cell, with_tables, write_or_check

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "profiles.md"
HEAD: Final = (
    "| profile | model and server | memory | architecture | MIG | NVLink |",
    "| --- | --- | --- | --- | --- | --- |",
)


def row(name: str) -> str:
    """Return the line of a profile."""
    profile = load_profile(name)
    identity = profile.identity
    cells = (
        f"`{name}`",
        profile.description,
        f"{profile.memory.total_mib:,} MiB",
        f"{identity.architecture.capitalize()}, {identity.compute_capability}",
        "no" if profile.features.mig == "none" else "yes",
        "no" if profile.nvlink is None else "switches" if profile.nvlink.switches else "bridges",
    )
    return f"| {' | '.join(map(in_cell, cells))} |"


def page(text: str | None = None) -> str:
    """Return the page with a fresh table."""
    return with_tables(PAGE, {"## Models": [*HEAD, *map(row, profile_names())]}, text)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "profile_table", __doc__))
