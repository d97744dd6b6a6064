"""Whether containers run in namespaces, under a supervisor or not at all, by what a machine allows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simkubelet._internal import sandbox
from simkubelet.model.errors import HostError
from simkubelet.runtime.translated_files import check_containers

WORKS = "exit 0"
REFUSED = "echo not permitted >&2; exit 1"
UNSUPERVISED = f"[ $# = 0 ] && exit 0; {REFUSED}"
ONLY_SUPERVISED = f"[ $# = 1 ] && exit 0; {REFUSED}"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str | None], None]:
    """A machine by what its kernel says, without an argument to a namespace and with one to a supervisor, and bwrap."""

    def give(kernel: str, bwrap: str | None) -> None:
        for name, text in {"launcher": kernel, "bwrap": bwrap}.items():
            if text is not None:
                (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
                (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sandbox, "_LAUNCHER", (str(tmp_path / "launcher"),))

    return give


def test_sandbox_that_can_be_made_separates_all(machine: Callable[..., None]) -> None:
    machine(REFUSED, WORKS)

    assert check_containers() == ""


@pytest.mark.parametrize(
    ("bwrap", "reason"),
    [(REFUSED, "bwrap cannot make a container here (not permitted)"), (None, "bwrap not found")],
    ids=["refused", "missing"],
)
def test_what_is_shared_without_namespaces_is_said_with_the_reason(
    machine: Callable[..., None], bwrap: str | None, reason: str
) -> None:
    machine(ONLY_SUPERVISED, bwrap)

    said = check_containers()

    assert "share the machine's processes, network, host name and users" in said
    assert said.endswith(f"({reason})")


def test_program_that_is_all_that_is_missing_is_named(machine: Callable[..., None]) -> None:
    machine(WORKS, None)

    with pytest.raises(HostError, match="install the package bubblewrap"):
        check_containers()


@pytest.mark.parametrize(
    ("bwrap", "words"), [(REFUSED, "allow user namespaces .*; what does without is refused as well"), (None, "install")]
)
def test_machine_that_refuses_both_is_one_line(machine: Callable[..., None], bwrap: str | None, words: str) -> None:
    machine(REFUSED, bwrap)

    with pytest.raises(HostError, match=f"^bwrap [^\n]*{words}"):
        check_containers()
