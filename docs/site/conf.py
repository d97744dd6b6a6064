"""Sphinx builds the documentation site from the Markdown files where they are: the session `docs` of nox.

The source folder is the checkout, so a relative link is the same on the site and on a code host. README.md is the
front page. The lists of docs/README.md are the navigation: a heading is a part, and each linked file a page. A page
that is in no list fails the build, and so does a link, or an anchor, that leads nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

OVERVIEW = "docs/README"

project = "simkubelet"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "tests/oracle/*.md"]
exclude_patterns = [".*", "build", "dist"]  # Sphinx need not search these for pages
myst_heading_anchors = 4
nitpicky = True
smartquotes = False  # --all is an option, not a dash
html_theme = "furo"
html_title = "simkubelet"
html_extra_path = ["index.html"]
html_copy_source = False
html_show_copyright = False


def navigation(overview: str) -> Iterator[str]:
    """Yield the lines of tables of contents: of the overview, and of each part of it.

    Args:
        overview: The text of docs/README.md.
    """
    yield from ("", "```{toctree}", ":hidden:", "", OVERVIEW, "```")
    for part in re.split(r"^## ", overview, flags=re.MULTILINE)[1:]:
        caption = part.partition("\n")[0]
        yield from ("", "```{toctree}", ":hidden:", f":caption: {caption}", "")
        pages = re.findall(r"\]\(([^)#]+)\.md\)", part)
        yield from (page.removeprefix("../") if page.startswith("../") else f"docs/{page}" for page in pages)
        yield "```"


def add_navigation(app: Sphinx, name: str, content: list[str]) -> None:
    """Put the navigation at the end of the front page, which on a code host has none."""
    if name == root_doc:
        content[0] += "\n".join(["", *navigation(Path(app.srcdir, f"{OVERVIEW}.md").read_text(encoding="utf-8"))])


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", add_navigation)
