"""Fail where a page of the built documentation site loads something from the network: it is read without one.

    python -m tools.check.site build/site

A link that a reader may follow is no load; a script, a style, a font or a picture is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

REMOTE: Final = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
LOADED: Final = {"action", "background", "data", "formaction", "poster", "src", "srcset"}
IN_STYLES: Final = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]*)""", re.IGNORECASE)


class _Loads(HTMLParser):
    """Collects the remote addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            is_loaded = name in LOADED or (name in ("href", "xlink:href") and tag not in ("a", "area"))
            if is_loaded and value and REMOTE.match(value):
                self.found.append(value)


def loads(name: str, text: str) -> list[str]:
    """Return the remote addresses that a file of the site loads.

    Args:
        name: The file's, whose ending says what it is.
        text: Its content.
    """
    if not name.endswith((".html", ".svg")):
        return IN_STYLES.findall(text)
    page = _Loads()
    page.feed(text)
    return [*page.found, *IN_STYLES.findall(text)]


def findings(site: Path) -> Iterator[str]:
    """Yield a line for each remote address that a file of a site loads."""
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css", ".svg"):
            for address in loads(path.name, path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(site)}: loads {address} from the network"


def main() -> int:
    found = [*findings(Path(sys.argv[1]))]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
