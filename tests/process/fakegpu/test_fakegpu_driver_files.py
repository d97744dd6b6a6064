"""The files of a machine's driver, and the stand-in for the control of the Multi-Process Service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu import InputError, Machine, make_cdi_hook, make_driver_root
from fakegpu.cli.main import main
from fakegpu.machine import installed_view


def test_driver_has_its_libraries_under_its_version(machine: Machine, tmp_path: Path) -> None:
    make_driver_root(machine, tmp_path / "driver")

    (libraries,) = (tmp_path / "driver" / "usr" / "lib").iterdir()
    version = machine.driver_version
    assert {path.name: path.resolve().name for path in libraries.iterdir()} == {
        name: f"{library}.{version}"
        for library in ("libcuda.so", "libnvidia-ml.so")
        for name in (f"{library}.1", f"{library}.{version}")
    } | {f"libfakegpu.so.{version}": f"libfakegpu.so.{version}"}
    programs = tmp_path / "driver" / "usr" / "bin"
    assert {path.name for path in programs.iterdir()} == {"nvidia-smi", "nvidia-cuda-mps-control"}
    assert all(os.access(path, os.X_OK) for path in programs.iterdir())
    with pytest.raises(InputError):
        make_driver_root(machine, tmp_path / "driver")


@pytest.mark.parametrize("name", ["lib/libnvidia-ml.so.1", "bin/nvidia-smi"])
@pytest.mark.parametrize("kind", ["link", "pipe", "sparse file"])
def test_what_takes_the_place_of_the_drivers_files_is_not_read(
    machine: Machine, tmp_path: Path, name: str, kind: str
) -> None:
    secret, place = tmp_path / "secret", machine.directory / name
    secret.write_text("of root")
    place.unlink()
    if kind == "link":
        place.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.touch()
        os.truncate(place, 1 << 40)

    with pytest.raises(
        InputError, match=f"{place.name}: is (a link in the place of a file|no file of ours); remove it"
    ):
        make_driver_root(machine, tmp_path / "driver")
    assert not any(path.is_file() and path.read_bytes() == b"of root" for path in (tmp_path / "driver").rglob("*"))


_COUNT = """
import ctypes, sys
nvml, count = ctypes.CDLL(sys.argv[1]), ctypes.c_uint()
assert nvml.nvmlInit_v2() == nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
print(count.value)
"""


def test_installed_library_sees_the_gpus_that_have_device_nodes(machine: Machine, tmp_path: Path) -> None:
    make_driver_root(machine, tmp_path / "driver")
    (library,) = (tmp_path / "driver").rglob("libnvidia-ml.so.1")
    nodes = tmp_path / "dev"
    nodes.mkdir()
    (nodes / "nvidia1").touch()

    counted = [
        int(subprocess.check_output([sys.executable, "-c", _COUNT, library], env={**os.environ, **env}))
        for env in ({"FAKEGPU_DEV": str(nodes)}, {}, machine.environment())
    ]

    on_host = sum(Path(f"/dev/nvidia{gpu.minor}").exists() for gpu in machine.gpus)
    assert counted == [1, on_host, len(machine.gpus)]


@pytest.mark.parametrize("program", [("nvidia-cdi-hook",), ("nvidia-ctk", "hook")])
def test_hook_makes_links_in_a_container_that_is_being_created(program: tuple[str, ...], tmp_path: Path) -> None:
    name, *before = program
    hook, root = tmp_path / name, tmp_path / "bundle" / "rootfs"
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib/b").symlink_to("something-else")
    make_cdi_hook(hook)
    state = json.dumps({"ociVersion": "1.2.0", "id": "x", "pid": 7, "bundle": str(root.parent), "annotations": {}})

    for words in (
        (
            "create-symlinks",
            "--link",
            "a.1::/usr/lib/a",
            "--link",
            "../b.1::/usr/lib/b",
            "--link",
            "c::/opt/it's new/c",
        ),
        ("update-ldcache", "--folder", "/usr/lib"),
    ):
        subprocess.run([hook, *before, *words], input=state, text=True, env={}, check=True)

    links = {str(path.relative_to(root)): str(path.readlink()) for path in root.rglob("*") if path.is_symlink()}
    assert links == {"usr/lib/a": "a.1", "usr/lib/b": "../b.1", "opt/it's new/c": "c"}
    with pytest.raises(FileExistsError):
        make_cdi_hook(hook)


@pytest.mark.parametrize("state", ['{"ociVersion": "1.2.0"}', '{"bundle": "%s"}'], ids=["no bundle", "link leads out"])
def test_hook_makes_nothing_outside_of_the_container(state: str, tmp_path: Path) -> None:
    hook, root, outside = tmp_path / "nvidia-cdi-hook", tmp_path / "bundle" / "rootfs", tmp_path / "outside"
    root.mkdir(parents=True)
    outside.mkdir()
    (root / "opt").symlink_to(outside)
    make_cdi_hook(hook)

    words = ("create-symlinks", "--link", f"a::{'/opt/a' if 'bundle' in state else outside / 'a'}")
    done = subprocess.run([hook, *words], input=state.replace("%s", str(root.parent)), text=True, env={}, check=False)

    assert done.returncode != 0
    assert list(outside.iterdir()) == []


def test_programs_find_their_modules_without_the_environment_that_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/it's here")
    machine = Machine.create(tmp_path / "node", "t4", 1, seed="test")
    probe = tmp_path / "it's here" / "sitecustomize.py"
    probe.parent.mkdir()
    probe.write_text("print('found')\n")

    done = subprocess.run(
        [machine.directory / "bin" / "nvidia-smi", "-L"], env={}, capture_output=True, text=True, check=False
    )

    assert done.stdout.startswith("found\n")
    machine.close()


class Control:
    """The control program with a pipe folder of its own."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.folder = folder
        self._program = machine.directory / "bin" / "nvidia-cuda-mps-control"

    def __call__(self, *args: str, told: str = "") -> tuple[int, str, str]:
        environment = {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
        }
        done = subprocess.run(
            [self._program, *args], input=told, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def control(machine: Machine, tmp_path: Path) -> Iterator[Control]:
    made = Control(machine, tmp_path / "mps")
    yield made
    made(told="quit")


def test_nobody_answers_before_the_daemon_is_there_and_after_it_has_quit(control: Control) -> None:
    absent = (1, "", "Cannot find MPS control daemon process\n")

    assert control(told="get_server_list") == absent
    assert control("-d") == (0, "", "")
    assert control(told="quit") == (0, "", "")
    assert control(told="get_server_list") == absent
    assert list((control.folder / "pipe").iterdir()) == []


def test_daemon_keeps_its_settings(control: Control) -> None:
    control("-d")

    assert control(told="get_default_active_thread_percentage") == (0, "100.0\n", "")
    assert control(told="set_default_active_thread_percentage 25") == (0, "25.0\n", "")
    told = "set_default_device_pinned_mem_limit 0 10G\nget_default_device_pinned_mem_limit 0\nget_server_list\n"
    assert control(told=told) == (0, "10G\n", "")
    assert control(told="get_default_active_thread_percentage") == (0, "25.0\n", "")
    assert "get_server_list" in (control.folder / "log" / "control.log").read_text()


@pytest.mark.parametrize("command", ["nonsense", "set_default_active_thread_percentage 101", "get_default_device"])
def test_command_that_is_none_is_reported(control: Control, command: str) -> None:
    control("-d")

    assert control(told=command) == (0, f"Unknown or malformed command: {command}\n", "")


def test_one_folder_has_one_daemon(control: Control) -> None:
    control("-d")

    assert control("-f") == (1, "", "An instance of this daemon is already running\n")


def test_daemon_that_was_killed_leaves_room_for_another(control: Control) -> None:
    control("-d")
    pid = int((control.folder / "pipe" / "nvidia-cuda-mps-control.pid").read_text())
    os.kill(pid, 9)
    while control(told="get_server_list")[0] == 0:
        pass

    assert control("-d") == (0, "", "")
    assert control(told="get_default_active_thread_percentage") == (0, "100.0\n", "")


_LOOK = """
import ctypes, json, os, stat, sys
root = os.environ["NVIDIA_DRIVER_ROOT"]
nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
assert nvml.nvmlInit_v2() == nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
nodes = [os.path.join(folder, name) for folder, _, names in os.walk("/dev") for name in names]
nodes = [node for node in nodes if not node.startswith("/dev/shm/")]  # files of other tests, which come and go
print(json.dumps({
    "nodes": sorted(node for node in nodes if "nvidia" in node and stat.S_ISCHR(os.stat(node).st_mode)),
    "null": os.path.exists("/dev/null"),
    "functions": sorted(os.listdir("/sys/bus/pci/devices")),
    "capabilities": os.path.exists("/proc/driver/nvidia/capabilities/gpu0/mig/gi13/access"),
    "libraries": sorted(name for _, _, names in os.walk(root) for name in names if name.startswith("libcuda")),
    "gpus": count.value,
    "arguments": sys.argv[1:],
}))
"""


@pytest.fixture(params=["namespace", "supervisor"])
def shown(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How a command is shown the files of an installed driver."""
    if request.param == "supervisor":
        refused = tmp_path / "bwrap"
        refused.write_text("#!/bin/sh\necho not permitted >&2\nexit 1\n")
        refused.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return
    program = shutil.which("bwrap")
    if program is None or subprocess.run([program, "--dev-bind", "/", "/", "true"], check=False).returncode:
        pytest.skip("bwrap is missing, or may not make a mount namespace here")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def exec_as_installed(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-P", "-m", "fakegpu", "exec", "--dir", str(machine.directory), "--driver-root"]
    return subprocess.run([*program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("shown")
@pytest.mark.skipif(not Path("/sys/bus/pci/devices").exists(), reason="a host without a PCI bus")
def test_command_sees_an_installed_driver(machine: Machine) -> None:
    machine.mig(0).create("1g.10gb")
    before = names_in(Path("/dev"))

    ended = exec_as_installed(machine, "--", sys.executable, "-c", _LOOK, "--driver-root")

    assert (ended.returncode, ended.stderr) == (0, "")
    seen = json.loads(ended.stdout)
    shown = {str(path.relative_to(machine.directory)) for path in machine.dev.rglob("*") if path.is_file()}
    assert set(seen["nodes"]) == {f"/{node}" for node in shown}
    assert "/dev/nvidia-caps/nvidia-cap255" not in seen["nodes"]
    assert (seen["null"], seen["capabilities"], seen["gpus"]) == (True, True, 4)
    assert seen["functions"] == names_in(machine.sys / "bus/pci/devices")
    assert seen["libraries"] == ["libcuda.so.1", f"libcuda.so.{machine.driver_version}"]
    assert seen["arguments"] == ["--driver-root"]
    assert names_in(Path("/dev")) == before
    machine.destroy()


@pytest.mark.usefixtures("shown")
def test_command_with_an_installed_driver_passes_its_status_on(machine: Machine) -> None:
    assert exec_as_installed(machine, "--", "sh", "-c", "exit 7").returncode == 7
    missing = exec_as_installed(machine, "--", "no-such-command")
    assert (missing.returncode, missing.stderr) == (2, "error: no command 'no-such-command': not found in PATH\n")


_WHO = """
import os, pynvml
pynvml.nvmlInit()
(process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(1))
print(process.pid == os.getpid(), process.usedGpuMemory)
"""


@pytest.mark.usefixtures("shown")
def test_process_with_an_installed_driver_is_the_command(machine: Machine) -> None:
    ended = exec_as_installed(machine, "--gpu", "1", "--memory", "1GiB", "--", sys.executable, "-c", _WHO)

    assert (ended.stdout, ended.stderr) == (f"True {1 << 30}\n", "")


def test_installed_driver_that_cannot_be_shown_is_one_line(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "program").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(installed_view, "find_built", lambda file: None)

    assert main(["exec", "--dir", str(machine.directory), "--driver-root", "--", "program"]) == 3
    assert capsys.readouterr().err == (
        "error: --driver-root: bwrap is missing, and what does without is refused, too (simkubelet-view is not built "
        "for this machine); install bubblewrap, or leave the option out\n"
    )


def test_entries_that_are_gone_are_not_shown(machine: Machine) -> None:
    installed_view.supervised(machine, ["true"], "refused")
    shown = machine.directory / "view" / "dev"
    (shown / "nvidia99").touch()
    (shown / "nvidia-gone").mkdir()
    (shown / "nvidia-gone" / "cap1").touch()

    installed_view.supervised(machine, ["true"], "refused")

    assert set(names_in(shown)) == {*names_in(machine.dev), *names_in(Path("/dev"))}
