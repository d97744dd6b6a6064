"""The pages, played as a reader would; `tests.support.doc_pages` says how.

The session `clients` plays the pages that need kubectl; `e2e` plays all pages and leaves out what needs it, and what
needs Go where there is none. README.md begins in a clone of the repository, on a machine that has Python and a C
compiler and nothing else that the project can use.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.doc_pages import PAGES, ROOT, Block, blocks
from tests.support.live_cluster import go_client
from tests.support.page_reader import page_reader
from tools.check.text import project_files

BIN = Path(sys.executable).parent
README = "README.md"
PYTEST = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "simkubelet.pytest_plugin,pytest_asyncio.plugin",
}
"""The plugins of pytest that the pages use; this environment has a dozen, which take two seconds to load."""
MISSING = {"apt-get", "bwrap", "docker", "fakegpu", "go", "kind", "kubectl", "simkubelet"}
"""Programs that a machine with only Python and a C compiler does not have; apt-get would install some of them."""


def pages(is_played: Callable[[Block], bool]) -> list[str]:
    return [page for page in PAGES if any(block.is_played and is_played(block) for block in blocks(page))]


@pytest.mark.parametrize(
    "page",
    [page for page in pages(lambda block: not block.needs_kubectl) if page != README],
)
def test_page_does_what_it_says(run: Any, page: str) -> None:
    has_go = shutil.which("go") is not None
    # What Go has compiled for the user of this machine is not compiled again.
    environment = {
        **run.environment(),
        **PYTEST,
        "GOCACHE": os.environ.get("GOCACHE", str(Path.home() / ".cache" / "go-build")),
    }
    with page_reader(run.scratch, environment, [BIN]) as reader:
        reader.read(blocks(page), but=lambda block: block.needs_kubectl or (block.needs_go and not has_go))

    assert run.process_ids() == []


@pytest.mark.clients
@pytest.mark.parametrize(
    "page",
    pages(lambda block: block.needs_kubectl),
)
def test_page_with_kubectl_does_what_it_says(run: Any, page: str) -> None:
    programs = run.scratch / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(go_client("SIMKUBELET_KUBECTL"))

    with page_reader(run.scratch, run.environment(), [programs, BIN]) as reader:
        reader.read(blocks(page), but=lambda block: block.needs_clone)

    assert run.process_ids() == []


@pytest.mark.timeout(1800)
def test_readme_works_on_a_bare_machine(run: Any) -> None:
    clone = run.scratch / "page"
    for file in project_files(ROOT):
        place = clone / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)

    # What pip has downloaded for the user of this machine is not downloaded again.
    cache = os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
    programs = str(bare_machine(run.scratch / "bin"))
    # Python compiles what it imports, a small part of what pip installs.
    machine = {**run.environment(), "PATH": programs, "PIP_CACHE_DIR": cache, "PIP_NO_COMPILE": "1"}
    with page_reader(run.scratch, machine) as reader:
        reader.read(blocks(README), but=lambda block: block.needs_kubectl)

    assert run.process_ids() == []


def bare_machine(folder: Path) -> Path:
    """Make a folder with the programs of this machine but those that are `MISSING`."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(":")):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name not in MISSING and not os.path.lexists(folder / program.name):
                (folder / program.name).symlink_to(program)
    # Of a version manager `python3` may be a script that needs the user's home.
    (folder / "python3").unlink(missing_ok=True)
    (folder / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    return folder
