"""Print a digest of everything that an editable install compiles, copies or writes down.

An editable install reads Python sources from the checkout but notes which packages there are, so it stays good until
the project's metadata, the C library, the recipe that builds it or the set of packages changes. `./dev` and the
noxfile compare the digest with the one noted at the last install.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BY_CONTENT = ("pyproject.toml", "CMakeLists.txt", "fakegpu/native/**/*", "simkubelet/native/**/*")
BY_NAME = ("fakegpu/**/__init__.py", "plugin/**/__init__.py", "scenarios/**/__init__.py", "simkubelet/**/__init__.py")


def matching(patterns: tuple[str, ...]) -> Iterator[Path]:
    """Yield the checkout's files that match any of the patterns, sorted, without Python's caches."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    yield from (path for path in sorted(found) if path.is_file() and path.suffix != ".pyc")


def digest() -> str:
    """Return one hexadecimal digest of the inputs."""
    total = hashlib.sha256()
    for path in matching(BY_CONTENT):
        total.update(f"{path.relative_to(ROOT)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    for path in matching(BY_NAME):
        total.update(f"{path.relative_to(ROOT)}\0".encode())
    return total.hexdigest()


if __name__ == "__main__":
    print(digest())
