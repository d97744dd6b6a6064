"""What the generators of pages have in common: write the committed page, or say whether it is current."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def write_or_check(page: Path, generate: Callable[[], str], module: str, about: str | None) -> int:
    """Run a generator's command line; return its exit status, 1 where ``--check`` finds a stale page.

    Args:
        page: The committed file.
        generate: Makes its content.
        module: The generator's name below `tools.generate`.
        about: Its docstring, of which the help shows the first line.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 when the page is stale")
    is_check = parser.parse_args().check
    fresh = generate()
    if not is_check:
        page.write_text(fresh, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != fresh:
        print(f"stale: {page.name}; run: python -m tools.generate.{module}", file=sys.stderr)
        return 1
    return 0
