"""Write ``docs/versions.md``: what differs between Kubernetes minors, from ``simkubelet/model/version.py``.

The text of each row is that of the attribute's documentation, its values are those that `version` gives to every patch
of every minor. With ``--check`` nothing is written and the exit status says whether the committed page is fresh.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from simkubelet.model.version import SUPPORTED, Version, version

PAGE = Path(__file__).resolve().parents[2] / "docs" / "versions.md"
PATCHES = range(30)
NAMES_ITSELF = ("minor", "kubelet_version")

HEAD = """\
# What differs between Kubernetes minors

`simkubelet run --kubelet-version`, and the key `kubernetes` of a node in a story, select a minor, {first} to {last},
or one of its patches where a fix came in between. The table lists every difference: a value applies from the version
before it up to the next one. `python -m tools.generate.version_table` writes this page.

| what | from version: value | source |
| --- | --- | --- |
"""


def attributes() -> dict[str, str]:
    """Return the documentation of each field of `Version`, on one line."""
    text = inspect.cleandoc(Version.__doc__ or "").partition("Attributes:\n")[2]
    found = re.findall(r"^(\w+): (.*(?:\n(?!\w+: ).*)*)", textwrap.dedent(text), re.MULTILINE)
    return {name: " ".join(about.split()) for name, about in found}


def values(name: str) -> Iterator[tuple[str, object]]:
    """Yield each version at which a field's value changes, with the new value; first the oldest of all."""
    last: object = ...
    for minor in SUPPORTED:
        for patch in PATCHES:
            value = getattr(version(f"{minor}.{patch}"), name)
            if value != last:
                yield minor if patch == 0 else f"{minor}.{patch}", value
                last = value


def row(name: str, about: str) -> str:
    """Return a field's row."""
    what, _, source = re.sub(" Source of (both|all): ", " Source: ", about).partition(" Source: ")
    shown = "<br>".join(f"{since}: {_shown(value)}" for since, value in values(name))
    line = f"| `{name}`: {what} | {shown} | {source or 'see the next'} |"
    return line.replace("``", "`")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return f"`{', '.join(value) if isinstance(value, tuple) else value}`"


def page() -> str:
    """Return the whole page."""
    texts = attributes()
    names = [field.name for field in fields(Version) if field.name not in NAMES_ITSELF]
    ordered = sorted(names, key=list(texts).index)
    return HEAD.format(first=SUPPORTED[0], last=SUPPORTED[-1]) + "\n".join(row(n, texts[n]) for n in ordered) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 when the page is stale")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == page():
        return 0
    print(f"stale: {PAGE.name}; run: python -m tools.generate.version_table", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
