"""The pages, played as a reader would; `tests.support.doc_pages` says how.

The session `clients` plays the pages that need kubectl; `e2e` plays all pages and leaves out what needs it, and what
needs Go where there is none. All run in the environment that `./dev` makes, not in that of the tests, which has more.
README.md begins in a clone of the repository, on a machine that has Python and a C compiler and nothing else that the
project can use.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.doc_pages import PAGES, ROOT, Block, blocks, copy_checkout
from tests.support.live_cluster import go_client
from tests.support.page_reader import page_reader

README = "README.md"
PYTEST = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "simkubelet.pytest_plugin,pytest_asyncio.plugin",
}
"""The plugins of pytest that the pages use; this environment has a dozen, which take two seconds to load."""
PIP_CACHE = {"PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))}
"""What pip has downloaded for the user of this machine is not downloaded again."""
MISSING = {"apt-get", "bwrap", "docker", "fakegpu", "go", "kind", "kubectl", "simkubelet"}
"""Programs that a machine with only Python and a C compiler does not have; apt-get would install some of them."""


@pytest.fixture(scope="session")
def environment_of_dev(testrun_uid: str) -> Path:
    """The programs of the environment that `./dev` makes in a clone; it stays in `build`, as other environments do."""
    clone = ROOT / "build" / "clone"
    clone.mkdir(parents=True, exist_ok=True)
    with (clone.parent / "clone.session").open("a+") as session:
        fcntl.flock(session, fcntl.LOCK_EX)
        session.seek(0)
        if session.read() != testrun_uid:
            for entry in clone.iterdir():
                if entry.name not in (".venv", "build"):
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            copy_checkout(clone)
            subprocess.run([clone / "dev", "run", "kubelet-restart"], stdin=subprocess.DEVNULL, check=True)
            session.truncate(0)
            session.write(testrun_uid)
    return clone / ".venv" / "bin"


def with_pytest(folder: Path, programs: Path) -> Path:
    """Make an environment that has pytest beside what another one has, as docs/pytest.md begins."""
    (packages,) = (programs.parent / "lib").glob("python*/site-packages")
    subprocess.run([programs / "python", "-m", "venv", "--without-pip", folder], check=True)
    (there,) = (folder / "lib").glob("python*/site-packages")
    (there / "more.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile", "pytest", "pytest-asyncio"]
    subprocess.run(install, env=os.environ | PIP_CACHE, stdin=subprocess.DEVNULL, check=True)
    return folder / "bin"


def pages(is_played: Callable[[Block], bool]) -> list[str]:
    return [page for page in PAGES if any(block.is_played and is_played(block) for block in blocks(page))]


@pytest.mark.parametrize(
    "page",
    [page for page in pages(lambda block: not block.needs_kubectl) if page != README],
)
def test_page_does_what_it_says(run: Any, environment_of_dev: Path, page: str) -> None:
    programs = [environment_of_dev]
    if any(block.is_played and block.needs_pytest for block in blocks(page)):
        programs.insert(0, with_pytest(run.scratch / "tests", environment_of_dev))
    has_go = shutil.which("go") is not None
    # What Go has compiled for the user of this machine is not compiled again.
    environment = {
        **run.environment(),
        **PYTEST,
        "GOCACHE": os.environ.get("GOCACHE", str(Path.home() / ".cache" / "go-build")),
    }
    with page_reader(run.scratch, environment, programs) as reader:
        reader.read(blocks(page), but=lambda block: block.needs_kubectl or (block.needs_go and not has_go))

    assert run.process_ids() == []


@pytest.mark.clients
@pytest.mark.parametrize(
    "page",
    pages(lambda block: block.needs_kubectl),
)
def test_page_with_kubectl_does_what_it_says(run: Any, environment_of_dev: Path, page: str) -> None:
    programs = run.scratch / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(go_client("SIMKUBELET_KUBECTL"))

    with page_reader(run.scratch, run.environment(), [programs, environment_of_dev]) as reader:
        reader.read(blocks(page), but=lambda block: block.needs_clone)

    assert run.process_ids() == []


@pytest.mark.timeout(1800)
def test_readme_works_on_a_bare_machine(run: Any) -> None:
    clone = run.scratch / "page"
    copy_checkout(clone)

    programs = str(bare_machine(run.scratch / "bin"))
    # Python compiles what it imports, a small part of what pip installs.
    machine = {**run.environment(), "PATH": programs, **PIP_CACHE, "PIP_NO_COMPILE": "1"}
    with page_reader(run.scratch, machine) as reader:
        reader.read(blocks(README), but=lambda block: block.needs_kubectl)

    def play(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["./dev", "run", *arguments], cwd=clone, env=machine, capture_output=True, text=True, check=False
        )

    everything = play("--all")
    # Where other tests leave too little time for a story, it is played once more.
    unknown = re.findall("repeat it: simkubelet run (.*)", everything.stdout) if everything.returncode == 3 else []
    assert everything.returncode == 0 or unknown, everything.stdout
    assert [done.stdout for one in unknown if (done := play(*shlex.split(one))).returncode] == []
    skipped = re.findall(r"^\d+ skipped: (.*)", everything.stdout, re.MULTILINE)
    assert all("bwrap" in reason for reason in skipped), skipped
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
