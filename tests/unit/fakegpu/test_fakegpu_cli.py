"""The command ``fakegpu``; each wrong input is one line on stderr."""

from __future__ import annotations

import importlib.metadata
import json
import os
from pathlib import Path

import pytest

from fakegpu import Machine
from fakegpu.profiles.profile import profile_names, profile_text
from tests.support.machines import run


def test_life_of_a_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = tmp_path / "node"

    assert run(capsys, "up", "--profile", "t4", "-n", "2", "--dir", node) == (0, f"2 x Tesla T4 in {node}\n", "")
    assert run(capsys, "fail", "1", "--xid", "79", "--dir", node) == (0, "", "")
    assert run(capsys, "set", "0", "temperature=91", "memory_used=2GiB", "--dir", node) == (0, "", "")
    status, out, _ = run(capsys, "list", "--dir", node)
    assert status == 0
    rows = [[cell.strip() for cell in line.split("│")] for line in out.splitlines() if "Tesla" in line]
    assert [row[6:9] for row in rows] == [["2048 / 15360", "91", "ok"], ["0 / 15360", "33", "xid 79"]]
    assert run(capsys, "heal", "1", "--dir", node) == (0, "", "")
    status, out, _ = run(capsys, "list", "-o", "json", "--dir", node)
    assert [(gpu["health"], gpu["temperature_c"]) for gpu in json.loads(out)] == [("ok", 91), ("ok", 33)]
    assert run(capsys, "down", "--dir", node) == (0, "", "")
    assert not node.exists()


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"fakegpu {importlib.metadata.version('simkubelet')}\n", "")


def test_gpus_can_be_named_by_uuid(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, _ = run(capsys, "fail", machine.gpu(2).uuid, "--lost", "--dir", machine.directory)

    assert status == 0
    assert [gpu.health for gpu in machine.gpus] == ["ok", "ok", "lost", "ok"]


def test_machine_lives_in_the_default_directory_when_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert run(capsys, "up", "-n", "1")[0] == 0
    assert len(Machine.open(tmp_path / "fakegpu").gpus) == 1
    assert run(capsys, "down")[0] == 0


def test_same_seed_gives_the_same_uuids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        run(capsys, "up", "-n", "2", "--seed", "s", "--dir", tmp_path / name)

    a, b = (Machine.open(tmp_path / name).gpus for name in ("a", "b"))
    assert a == b


def test_profiles_lists_each_with_its_description(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "profiles")

    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == list(profile_names())


def test_profiles_prints_one_to_start_from_and_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "profiles", "l4")[:2] == (0, profile_text("l4"))
    assert json.loads(run(capsys, "profiles", "--schema")[1])["title"] == "Profile"


def test_up_makes_a_mix(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, "up", "--gpu", "h100-80gb=2", "--gpu", "l4=1", "--dir", str(tmp_path / "mix"))

    assert (status, out) == (0, f"2 x NVIDIA H100 80GB HBM3, 1 x NVIDIA L4 in {tmp_path / 'mix'}\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_exit_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o555)

    status, _, err = run(capsys, "up", "--dir", tmp_path / "node")

    tmp_path.chmod(0o755)
    assert status == 2
    assert "Permission denied" in err


def test_host_that_refuses_is_one_line_and_exit_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", no_space)

    status, _, err = run(capsys, "up", "--dir", tmp_path / "node")

    assert status == 3
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_full_disk_is_exit_status_3(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "cdi", "--dir", machine.directory, "-o", "/dev/full")

    assert (status, err) == (3, "error: /dev/full: No space left on device\n")


def test_link_to_nothing_is_not_followed(machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "cdi.json"
    link.symlink_to(tmp_path / "absent")

    status, _, err = run(capsys, "cdi", "--dir", machine.directory, "-o", link)

    reason = "is a link to nothing: remove it or choose another file"
    assert (status, err) == (2, f"error: -o: {link} {reason}\n")
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("command", ["up", "down", "exec", "list", "fail", "heal", "set", "profiles"])
def test_help_of_each_command_teaches_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, command, "--help")

    assert status == 0
    assert f"Example:\n    fakegpu {command}" in out


def test_help_of_set_lists_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\n    temperature                degrees Celsius\n" in run(capsys, "set", "--help")[1]


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys)

    assert status == 0
    assert out.startswith("Usage: fakegpu")


def test_interrupt_is_exit_status_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> Machine:
        raise KeyboardInterrupt

    monkeypatch.setattr(Machine, "open", interrupt)

    status, _, err = run(capsys, "list")

    assert status == 130
    assert err.strip() == ""
