from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from simkubelet import sandbox
from simkubelet.errors import HostError


@pytest.fixture
def can_sandbox() -> None:
    try:
        sandbox.check_sandbox()
    except HostError as error:
        pytest.skip(str(error))


def run(command: list[str], folders: dict[str, Path]) -> subprocess.CompletedProcess[str]:
    argv = sandbox.sandboxed(command, folders)
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.usefixtures("can_sandbox")
def test_program_finds_the_folder_at_a_path_that_the_host_does_not_have(tmp_path):
    (tmp_path / "hello").write_text("node")
    target = "/var/lib/simkubelet-test/deep/er"

    seen = run(["cat", f"{target}/hello"], {target: tmp_path})

    assert (seen.stdout, seen.stderr) == ("node", "")
    assert not Path("/var/lib/simkubelet-test").exists()


@pytest.mark.usefixtures("can_sandbox")
def test_rest_of_the_hosts_folder_is_still_there(tmp_path):
    seen = run(["ls", "/var/lib"], {"/var/lib/simkubelet-test": tmp_path})

    assert set(seen.stdout.split()) == {"simkubelet-test", *(path.name for path in Path("/var/lib").iterdir())}


@pytest.mark.usefixtures("can_sandbox")
def test_folder_that_the_host_has_is_covered_for_the_program_alone(tmp_path):
    (tmp_path / "own").touch()
    other = tmp_path / "other"
    other.mkdir()

    seen = run(["ls", str(other)], {str(other): tmp_path})

    assert seen.stdout.split() == ["other", "own"]
    assert list(other.iterdir()) == []


@pytest.mark.usefixtures("can_sandbox")
def test_files_stand_beside_those_of_a_folder_of_the_host(tmp_path):
    for name in ("one", "two", "other"):
        (tmp_path / name).write_text(name)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "own").write_text("own")
    places = {str(folder / "1"): tmp_path / "one", str(folder / "2"): tmp_path / "two"}
    places |= {str(folder / "deep" / name): tmp_path / "other" for name in ("3", "4")}

    seen = run(["sh", "-c", f"cd {folder}; ls; ls deep; cat 1 2 deep/4 own"], places)

    assert (seen.stdout.split(), seen.stderr) == (["1", "2", "deep", "own", "3", "4", "onetwootherown"], "")
    assert [path.name for path in folder.iterdir()] == ["own"]


@pytest.mark.usefixtures("can_sandbox")
def test_root_folder_gets_places_that_the_host_does_not_have(tmp_path):
    (tmp_path / "one").write_text("one")
    places = {"/simkubelet-test": tmp_path, "/simkubelet-test-2/deep": tmp_path / "one", "/dev/null": tmp_path / "one"}

    seen = run(["sh", "-c", "cat /simkubelet-test/one /simkubelet-test-2/deep /dev/null; pwd; ls /"], places)

    own = sorted(
        {path.name for path in Path("/").iterdir() if path.name[0] != "."} | {"simkubelet-test", "simkubelet-test-2"}
    )
    assert (seen.stderr, seen.stdout.split()) == ("", [f"oneoneone{Path.cwd()}", *own])
    assert not Path("/simkubelet-test").exists()


@pytest.mark.usefixtures("can_sandbox")
def test_exit_status_arguments_and_writes_pass_through(tmp_path):
    target = "/var/lib/simkubelet-test"

    seen = run(["sh", "-c", f'printf %s "$1" >{target}/said; exit 7', "sh", "two words"], {target: tmp_path})

    assert seen.returncode == 7
    assert (tmp_path / "said").read_text() == "two words"


def test_missing_programs_are_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HostError, match="unshare and mount not found"):
        sandbox.check_sandbox()


def test_refused_namespace_is_told(monkeypatch, tmp_path):
    for name, text in {"unshare": "echo unshare: not permitted >&2; exit 1", "mount": "exit 0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HostError, match="not permitted"):
        sandbox.check_sandbox()
