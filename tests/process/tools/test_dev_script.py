"""The `./dev` script on machines that lack what it needs, copied to where no environment stands ready."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PROGRAM_LIMIT_S, eventually

SCRIPT = Path(__file__).resolve().parents[3] / "dev"


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "a check out"
    folder.mkdir()
    shutil.copy(SCRIPT, folder)
    return folder


@pytest.fixture
def bare_path(tmp_path):
    """A PATH with a shell's basics, an ordinary user's `id`, and neither Python, compiler nor package manager."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "dirname", "mktemp", "rm"):
        (folder / name).symlink_to(shutil.which(name))
    user = folder / "id"
    user.write_text("#!/bin/sh\necho 1000\n")
    user.chmod(0o755)
    return folder


def dev(checkout, *arguments, **options):
    return subprocess.run(
        [checkout / "dev", *arguments], capture_output=True, text=True, cwd="/", check=False, **options
    )


def test_help_explains_both_commands(checkout):
    result = dev(checkout, "--help")

    assert result.returncode == 0
    assert "./dev run" in result.stdout
    assert "./dev test" in result.stdout


@pytest.mark.parametrize("arguments", [pytest.param([], id="nothing"), pytest.param(["walk"], id="unknown command")])
def test_wrong_call_shows_usage_and_exits_2(checkout, arguments):
    result = dev(checkout, *arguments)

    assert result.returncode == 2
    assert result.stderr.startswith("Usage: ./dev")


@pytest.mark.parametrize("command", ["run", "test"])
def test_machine_without_python_gets_one_line_and_exit_3(checkout, bare_path, command):
    result = dev(checkout, command, env={"PATH": str(bare_path)})

    assert result.returncode == 3
    assert result.stderr == (
        "error: Python 3.11 or newer is missing: install it (Debian, Ubuntu: sudo apt-get install python3 python3-venv)"
        " and run this again\n"
    )


def test_python_without_venv_module_gets_one_line_and_exit_3(checkout, bare_path):
    python = bare_path / "python3"
    python.write_text('#!/bin/sh\ncase "$2" in *version_info?:2*) echo 3.12 ;; *ensurepip*) exit 1 ;; esac\n')
    python.chmod(0o755)

    result = dev(checkout, "run", env={"PATH": str(bare_path)})

    assert result.returncode == 3
    assert result.stderr == (
        "error: the venv module of python3 is missing: install it"
        " (Debian, Ubuntu: sudo apt-get install python3.12-venv) and run this again\n"
    )


def test_failing_step_shows_its_output_and_exits_3(checkout, bare_path):
    python = bare_path / "python3"
    python.write_text('#!/bin/sh\ncase "$2" in *version_info?:2*) echo 3.12 ;; venv) echo no room; exit 1 ;; esac\n')
    python.chmod(0o755)

    result = dev(checkout, "run", env={"PATH": str(bare_path)})

    lines = result.stderr.splitlines()
    assert result.returncode == 3
    assert lines[:2] == ["dev: making .venv with Python 3.12 ...", "no room"]
    assert lines[2].startswith("error: the command above failed: python3 -m venv")


PYTHON = """#!/bin/sh
# Makes an environment of copies of itself; `simkubelet` and `nox` in there print their arguments.
case "$*" in
*build_inputs*) echo digest ;;
*"-m venv"*)
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python"
    touch "$folder/bin/pip"
    chmod +x "$folder/bin/pip"
    printf '#!/bin/sh\\necho played "$@"\\n' >"$folder/bin/simkubelet"
    printf '#!/bin/sh\\necho tested "$@"\\n' >"$folder/bin/nox"
    chmod +x "$folder/bin/simkubelet" "$folder/bin/nox"
    ;;
*version_info?:2*) echo 3.12 ;;
*"-m pip install"*) echo "$*" >>"$LOG" ;;
esac
"""


@pytest.fixture
def machine(bare_path, tmp_path):
    """Add Python, a compiler and root's `id` and `apt-get` to the PATH; what is installed is in the file `log`."""
    for name in ("cp", "mkdir", "touch", "chmod"):
        (bare_path / name).symlink_to(shutil.which(name))
    programs = {
        "python3": PYTHON,
        "cc": "#!/bin/sh\n",
        "id": "#!/bin/sh\necho 0\n",
        "apt-get": '#!/bin/sh\necho "apt-get $*" >>"$LOG"\n',
    }
    for name, text in programs.items():
        (bare_path / name).unlink(missing_ok=True)
        (bare_path / name).write_text(text)
        (bare_path / name).chmod(0o755)
    return {"PATH": str(bare_path), "LOG": str(tmp_path / "log")}


def test_first_run_installs_bubblewrap_and_what_clusters_need(checkout, machine, tmp_path):
    result = dev(checkout, "run", "a-story", env=machine)

    assert (result.returncode, result.stdout) == (0, "played run a-story\n")
    assert (tmp_path / "log").read_text().splitlines() == [
        "apt-get update -q",
        "apt-get install -q -y --no-install-recommends bubblewrap",
        f"-m pip install --quiet --editable {checkout}[dra,kind]",
    ]


def test_second_run_installs_nothing(checkout, machine, tmp_path):
    dev(checkout, "run", env=machine)
    (tmp_path / "log").unlink()

    result = dev(checkout, "run", env=machine)

    assert (result.returncode, result.stderr) == (0, "")
    assert not (tmp_path / "log").exists()


def test_environment_without_the_extra_is_installed_again(checkout, machine, tmp_path):
    dev(checkout, "run", env=machine)
    (checkout / ".venv" / "installed-inputs").write_text("digest\n")
    (tmp_path / "log").unlink()

    dev(checkout, "run", env=machine)

    assert "[dra,kind]" in (tmp_path / "log").read_text()


@pytest.fixture(params=["flock", "Python"])
def held(request, bare_path, machine, tmp_path):
    """The environment of a first use that waits in the middle, and a function that lets it go on."""
    if request.param == "flock":
        if (flock := shutil.which("flock")) is None:
            pytest.skip("no flock on this machine")
        (bare_path / "flock").symlink_to(flock)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    python = (bare_path / "python3").read_text()
    locking = f'*"import fcntl"*) shift; exec {sys.executable} -c "$@" ;;\n'
    waiting = f'echo begun >>"$LOG"; read -r line <"{gate}"\n'
    python = python.replace('case "$*" in\n', f'case "$*" in\n{locking}').replace(
        '*"-m venv"*)\n', f'*"-m venv"*)\n{waiting}'
    )
    (bare_path / "python3").write_text(python)
    return machine, lambda: gate.write_text("go on\n")


@pytest.mark.parametrize("command", ["run", "test"])
def test_second_use_waits_for_the_first_one_to_set_up(checkout, held, command, tmp_path):
    environment, go_on = held
    uses = [subprocess.Popen([checkout / "dev", "run"], env=environment, stderr=subprocess.PIPE, text=True)]
    eventually(lambda: (tmp_path / "log").exists())
    uses.append(subprocess.Popen([checkout / "dev", command], env=environment, stderr=subprocess.PIPE, text=True))

    second = uses[1].stderr.readline()
    go_on()
    said = [use.communicate(timeout=PROGRAM_LIMIT_S)[1] for use in uses]

    assert second == "dev: another ./dev is setting up this checkout; waiting for it ...\n"
    assert [use.returncode for use in uses] == [0, 0]
    assert "making .venv" not in said[1]
    assert (tmp_path / "log").read_text().splitlines().count("begun") == 1


def is_unlocked(checkout):
    folder = os.open(checkout, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(folder)
    return True


def test_use_that_is_killed_leaves_no_lock(checkout, held, tmp_path):
    environment, go_on = held
    killed = subprocess.Popen([checkout / "dev", "run"], env=environment, stderr=subprocess.DEVNULL, process_group=0)
    eventually(lambda: (tmp_path / "log").exists())
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    # The killed children have the lock too until they are gone, and one would take the line that is for the next use.
    eventually(lambda: is_unlocked(checkout))

    again = subprocess.Popen([checkout / "dev", "run"], env=environment, stderr=subprocess.PIPE, text=True)
    go_on()

    assert "waiting" not in again.communicate(timeout=PROGRAM_LIMIT_S)[1]
    assert again.returncode == 0


@pytest.mark.parametrize(
    ("program", "text"),
    [
        pytest.param("apt-get", "#!/bin/sh\nexit 100\n", id="no network"),
        pytest.param("id", "#!/bin/sh\necho 1000\n", id="no root"),
    ],
)
def test_run_continues_where_bubblewrap_cannot_be_installed(checkout, machine, bare_path, program, text):
    (bare_path / program).write_text(text)

    result = dev(checkout, "run", env=machine)

    assert (result.returncode, result.stdout) == (0, "played run\n")
    assert "dev: no bwrap (Debian, Ubuntu: sudo apt-get install bubblewrap)" in result.stderr


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        pytest.param(["--quick"], "--tags quick", id="quick"),
        pytest.param(["--quick", "--", "-x"], "--tags quick -- -x", id="quick with arguments for pytest"),
        pytest.param(["-s", "unit", "--", "--quick"], "-s unit -- --quick", id="pytest's own"),
    ],
)
def test_quick_names_noxs_tag(checkout, machine, given, passed):
    result = dev(checkout, "test", *given, env=machine)

    assert result.stdout == f"tested --noxfile {checkout}/noxfile.py {passed}\n"
