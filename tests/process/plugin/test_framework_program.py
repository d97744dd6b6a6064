"""A program of the framework that is started by hand; observed: its last line and its exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.patience import LIMIT_S

_ROOT = Path(__file__).parents[3]
_PROGRAM = """\
import sys
from pathlib import Path
from simkubelet.apis.inotify import Mask, PathWatch
from simkubelet.framework import Device, DevicePlugin, run

class Seats(DevicePlugin):
    resource_name, socket_name = "example.com/seat", "seats.sock"
    async def devices(self):
        with PathWatch() as changes:
            changes.add(Path("/no/seats"), Mask.CREATE)
            yield (Device("s0"),)

sys.exit(run(lambda: [Seats()], kubelet_dir=Path(sys.argv[1])))
"""


def started(file: Path, kubelet_dir: Path) -> subprocess.CompletedProcess[str]:
    file.write_text(_PROGRAM)
    return subprocess.run(
        [sys.executable, str(file), str(kubelet_dir)],
        env={"PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def test_program_without_a_kubelet_explains_how_to_try_it(tmp_path: Path) -> None:
    file, folder = tmp_path / "My Seats.py", tmp_path / "none"

    ran = started(file, folder)

    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert ran.stderr.startswith(f"error: no kubelet here: {folder} does not exist; try the plugin on a simulated node")
    assert "simkubelet up --plugin 'my-seats=python " in ran.stderr


def test_error_of_the_system_is_one_line_with_its_place(tmp_path: Path, kubelet_dir: Path) -> None:
    ran = started(tmp_path / "seats.py", kubelet_dir)

    assert ran.returncode == 3
    assert ran.stderr.splitlines()[-1] == f"error: {tmp_path / 'seats.py'}:10: /no/seats: No such file or directory"
    assert "Traceback" not in ran.stderr
