"""Fail where a file of the checkout names a package registry's host or a path that exists on one machine only.

Both would work here and break elsewhere: a mirror, a machine without network, another user's home. Registries are
reached through their clients' own configuration.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUR_HIDDEN_FOLDERS = {".ci"}
RESULTS = {"build", "dist"}
"""Folders of the checkout's root that are made, not written."""

REGISTRY_HOST = re.compile(
    r"\b(?:proxy\.golang\.org|sum\.golang\.org|(?:files\.|test\.)?pypi\.org|pythonhosted\.org|deb\.debian\.org"
    r"|archive\.ubuntu\.com|registry\.npmjs\.org|static\.crates\.io)\b"
)
MACHINE_PATH = re.compile(r"""(?:^|[\s"'`=(:,])/(?:root|work|Users/\w+|home/\w+)/""")

RULES = ((REGISTRY_HOST, "names a registry's host"), (MACHINE_PATH, "is a path of one machine"))


def project_files(root: Path) -> Iterator[Path]:
    """Yield the checkout's own files: no environments, caches or build results."""
    for folder, subfolders, names in os.walk(root):
        made = RESULTS if Path(folder) == root else set()
        subfolders[:] = sorted(name for name in subfolders if name not in made and _is_ours(name))
        # In a worktree .git is a file that names the checkout it belongs to.
        yield from (Path(folder, name) for name in sorted(names) if name != ".git")


def _is_ours(folder: str) -> bool:
    return folder != "__pycache__" and (not folder.startswith(".") or folder in OUR_HIDDEN_FOLDERS)


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, what was found, what is wrong with it) for each offence in `text`."""
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, complaint in RULES:
            for match in pattern.finditer(line):
                yield number, match.group().strip(), complaint


def main() -> int:
    offences = 0
    for path in project_files(ROOT):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, found, complaint in findings(text):
            offences += 1
            print(f"{path.relative_to(ROOT)}:{number}: {found!r} {complaint}", file=sys.stderr)
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
