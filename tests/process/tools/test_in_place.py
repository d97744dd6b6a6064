"""The script that runs a command in another distribution, with this machine's programs in its place."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.patience import LIMIT_S

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "in_place"
LAID_OVER = r"""
place=$1/cache/simkubelet/places/trixie upper=$(mktemp -d -p "$1") work=$(mktemp -d -p "$1")
chmod 755 "$upper"
mount -t overlay -o "lowerdir=/,upperdir=$upper,workdir=$work" overlay "$place" || exit 77
mount --bind "$1/home" "$place/home"
shift
exec "$@"
"""
WAITS = "in_place: waiting for another run of trixie-root ..."


class Place:
    """A cache in which the machine's own file system stands for that of a Debian; what changes in it is not kept."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("home", "cache/simkubelet/places/trixie", "checkout/tools"):
            (folder / name).mkdir(parents=True)
        self.script = shutil.copy(SCRIPT, folder / "checkout" / "tools")
        subprocess.run(["git", "init", "--quiet", folder / "checkout"], check=True)  # noqa: S607

    def start(self, *command):
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", LAID_OVER, "sh", self.folder, self.script, *command],  # noqa: S607
            env={**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command):
        process = self.start(*command)
        return *process.communicate(timeout=LIMIT_S), process.returncode


@pytest.fixture
def place(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root mounts file systems")
    made = Place(tmp_path)
    _, error, status = made.run("trixie", "root", "true")
    if status == 77 or "unshare: " in error:
        pytest.skip(f"no file system can be laid over another here: {error}")
    assert (error, status) == ("", 0)
    return made


@pytest.mark.parametrize(
    "arguments", [["trixie", "root"], ["potato", "root", "true"], ["trixie", "all", "true"], ["--path"]]
)
def test_wrong_call_shows_usage_and_exits_2(arguments):
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: tools/in_place")


@pytest.mark.parametrize(
    ("rights", "shown"),
    [
        pytest.param("root", "0 refused=no", id="root"),
        pytest.param("user", "1000 refused=.*", id="user"),
        pytest.param("container", "0 refused=yes", id="container"),
    ],
)
def test_command_has_the_rights_and_its_status_is_kept(place, rights, shown):
    (place.folder / "checkout" / "file").write_text("of the checkout\n")
    asked = 'cat file; unshare --mount true 2>/dev/null && refused=no || refused=yes; echo "$(id -u) refused=$refused"'

    for _ in range(2):  # the copy of the first run is there the second time
        output, error, status = place.run("trixie", rights, "sh", "-c", f"{asked}; exit 7")

        assert output.splitlines()[0] == "of the checkout", error
        assert re.fullmatch(shown, output.splitlines()[1])
        assert status == 7


def test_temporary_files_are_in_the_places_own_folder(place, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(place.folder / "of the caller alone"))

    output, error, status = place.run("trixie", "root", "mktemp", "--dry-run")

    assert (output.rpartition("/")[0], error, status) == ("/tmp", "", 0)


def test_path_is_that_of_the_file_system(place):
    assert place.run("--path", "trixie") == (f"{place.folder}/cache/simkubelet/places/trixie\n", "", 0)


def test_second_run_waits_for_the_first(place):
    first = place.start("trixie", "root", "sh", "-c", "touch made; echo ready; cat; ls made")
    assert first.stdout.readline() == "ready\n"

    second = place.start("trixie", "root", "ls", "made")
    assert second.stderr.readline() == f"{WAITS}\n"
    assert first.communicate(timeout=LIMIT_S)[0] == "made\n"
    assert second.communicate(timeout=LIMIT_S)[0] == "made\n"


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_run_that_is_killed_leaves_nothing(place, sent):
    command = "setsid sleep 1000 & touch /tmp/made /dev/shm/made; echo ready; wait"
    killed = place.start("trixie", "root", "sh", "-c", command)
    assert killed.stdout.readline() == "ready\n"

    killed.send_signal(sent)

    # The output ends when the last process has ended that has it.
    assert killed.communicate(timeout=LIMIT_S) == ("", "")
    assert killed.returncode == -sent
    assert place.run("trixie", "root", "find", "/tmp", "/dev/shm", "-type", "f") == ("", "", 0)
