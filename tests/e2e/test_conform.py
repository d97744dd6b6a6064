"""``simkubelet conform`` from the command line: what it prints, the files it writes, its exit status."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

SEATS = "resource: example.com/seat\ncount: 2\n"
PLUGIN = f"{sys.executable} -m simkubelet plugin generic --config seats.yaml"
DRIVER = Path(__file__).parents[2] / "scenarios" / "catalog" / "dra" / "driver.py"
ONLY = "--only registration/version --only shutdown/exit-status --only pre-start/again --only health/reported"


@pytest.fixture
def seats(run: Any) -> None:
    (run.scratch / "seats.yaml").write_text(SEATS)


@pytest.mark.usefixtures("seats")
def test_plugin_that_passes_has_a_table_and_junit(run: Any) -> None:
    done = run(f"simkubelet conform --dir {run.scratch} --junit junit.xml {ONLY} -- {PLUGIN}")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "example.com/seat: 2 devices; options: none"
    assert lines[-1].startswith("3 passed, 2 skipped in ")
    suite = ElementTree.parse(run.scratch / "junit.xml").getroot()  # noqa: S314  # our own output
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    chosen = {"version": [], "exit-status": [], "again": ["skipped"], "reported": ["skipped"]}
    needed = {"ends-in-time": []}
    assert cases == {**chosen, **needed}
    assert run.leftovers() == []


@pytest.mark.usefixtures("seats")
def test_plugin_that_fails_shows_evidence_and_the_fix(run: Any) -> None:
    (run.scratch / "broken.yaml").write_text("break: {createFile: {path: /etc/broken}}\nwait: 3s\n")

    done = run(f"simkubelet conform --dir {run.scratch} --profile broken.yaml --only health/reported -- {PLUGIN}")

    assert done.returncode == 1
    assert "FAILED health/reported: The plugin reports a device that breaks" in done.stdout
    assert "connected[example.com/seat]: expected 1; actual 2" in done.stdout
    repeat = f"repeat it: simkubelet conform --profile broken.yaml --only health/reported -- {sys.executable}"
    assert repeat in done.stdout
    assert "how to fix it: Send a new list on the open stream" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 failed in ")


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        pytest.param("", 2, "error: no plugin; add -- and the command that starts it", id="no plugin"),
        pytest.param("-- no-such-program", 2, "error: no program 'no-such-program'", id="no program"),
        pytest.param("--only shutdwon -- true", 2, "error: --only: no check 'shutdwon'", id="no check"),
        pytest.param("-- sh -c 'echo no driver; exit 4'", 1, 'its log says: "no driver"', id="plugin ends"),
        pytest.param(
            "-- sh -c 'echo error: no driver; echo bye; exit 4'",
            1,
            'its log says: "error: no driver … bye"',
            id="plugin goes on after its error",
        ),
        pytest.param(f"-- {sys.executable} {DRIVER}", 1, "the program is the DRA driver dra.example.com;", id="driver"),
        pytest.param(
            f"-- {sys.executable} -m simkubelet plugin nvidia", 1, "no GPUs? --profile FILE gives", id="no GPUs"
        ),
    ],
)
def test_what_cannot_be_checked_is_one_line(run: Any, command: str, status: int, message: str) -> None:
    done = run(f"simkubelet conform {command}")

    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
