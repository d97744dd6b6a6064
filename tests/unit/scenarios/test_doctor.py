"""What `simkubelet doctor` finds on machines of several kinds."""

from __future__ import annotations

import json
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from scenarios import doctor
from scenarios.backends.world import folders
from scenarios.doctor import Check, Found, State, document, examine, lines
from simkubelet.model.errors import HostError


def check(state: State, fix: str = "", *, is_needed: bool) -> Check:
    return Check("thing", "many a use", lambda: Found(state, "some detail", fix), is_needed)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Leaves a machine with only these programs, for a user who is not root."""

    def only(*names: str) -> None:
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in names else None)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)

    return only


@pytest.fixture
def sysctl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, int], None]:
    """Gives the kernel's settings these values, and no others."""
    monkeypatch.setattr(doctor, "_SYSCTL", tmp_path)

    def give(name: str, value: int) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{value}\n")

    return give


@pytest.mark.parametrize(
    ("checks", "status"),
    [
        ([check(State.OK, is_needed=True), check(State.MISSING, is_needed=False)], 0),
        ([check(State.LIMITED, is_needed=True)], 0),
        ([check(State.OK, is_needed=True), check(State.MISSING, is_needed=True)], 3),
    ],
)
def test_only_what_stories_need_decides(checks: Collection[Check], status: int) -> None:
    assert examine(checks)[1] == status


def test_report_names_state_purpose_and_remedy() -> None:
    found = examine([check(State.MISSING, "sudo add thing", is_needed=True), check(State.OK, is_needed=False)])

    report = list(lines(*found))

    assert [line.split()[0] for line in report if "thing  " in line] == ["missing", "ok"]
    assert sum("add it: sudo add thing" in line for line in report) == 1
    assert report[-1] == "Stories cannot be played here; see what is missing above."
    assert json.loads(document(*found)) == {
        "canPlay": False,
        "checks": [
            {
                "name": "thing",
                "purpose": "many a use",
                "isNeeded": needed,
                "state": state,
                "detail": "some detail",
                "fix": fix,
            }
            for needed, state, fix in ((True, "missing", "sudo add thing"), (False, "ok", ""))
        ],
    }


@pytest.mark.parametrize(
    ("installed", "fix"),
    [
        (["apt-get"], "sudo apt-get install -y gcc libc6-dev"),
        (["dnf"], "sudo dnf install -y gcc"),
        (["apk"], "sudo apk add build-base"),
        ([], ""),
    ],
)
def test_missing_program_is_added_by_the_package_manager(
    programs: Callable[..., None], installed: list[str], fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    programs(*installed)

    assert doctor._c_compiler() == Found(State.MISSING, "none of cc, gcc, clang is on the PATH", fix)


@pytest.mark.parametrize(
    ("setting", "value", "fix"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", 1, "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", 0, "sysctl kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", 0, "sysctl user.max_user_namespaces=15000"),
        ("user/max_user_namespaces", 9, ""),
    ],
)
def test_refused_namespaces_name_the_setting(
    programs: Callable[..., None],
    sysctl: Callable[[str, int], None],
    setting: str,
    value: int,
    fix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs("bwrap")
    sysctl(setting, value)

    def refuse() -> None:
        raise HostError("no namespaces")

    monkeypatch.setattr(doctor, "check_sandbox", refuse)

    assert doctor._node_view() == Found(State.MISSING, "no namespaces", f"sudo {fix}" if fix else "")


def test_containers_that_share_with_the_machine_are_limited(
    programs: Callable[..., None], sysctl: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs("bwrap")
    sysctl("user/max_user_namespaces", 0)
    monkeypatch.setattr("simkubelet.runtime.check_containers", lambda: "they share all", raising=False)

    assert doctor._containers() == Found(State.LIMITED, "they share all", "sudo sysctl user.max_user_namespaces=15000")


def test_long_temporary_folder_is_no_place_for_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(folder))

    found = doctor._temporary_folder()

    assert (found.state, found.fix) == (State.MISSING, "export TMPDIR=/tmp")
    assert not list(folder.iterdir())


def test_link_does_not_make_a_temporary_folder_shorter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder, link = tmp_path / ("x" * 90), tmp_path / "x"
    folder.mkdir()
    link.symlink_to(folder)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(link))

    assert doctor._temporary_folder().state is State.MISSING


def test_memory_with_room_is_where_nodes_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="sk-", dir="/tmp"))
    monkeypatch.setattr(folders, "SHARED_MEMORY", place)
    monkeypatch.setattr(folders, "default_place", lambda: place)

    assert doctor._temporary_folder() == Found(State.OK, f"{place}, in memory")
    place.rmdir()


def test_temporary_folder_that_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "gone"))

    assert doctor._temporary_folder() == Found(
        State.MISSING, f"{tmp_path / 'gone'}: No such file or directory", "export TMPDIR=/var/tmp"
    )


def test_low_limits_are_named(
    programs: Callable[..., None], sysctl: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs()
    sysctl("fs/inotify/max_user_instances", 128)
    monkeypatch.setattr(resource, "getrlimit", lambda number: (256, 1024))

    assert doctor._open_files().state is State.LIMITED
    assert doctor._inotify() == Found(
        State.LIMITED,
        "a user may have 128 instances; kind nodes may need more",
        "sudo sysctl fs.inotify.max_user_instances=1024",
    )
