"""A command that sends itself a signal at a certain one of its accesses to files, in place of a random moment.

They are counted from the time at which the command has a handler of its own: before, Python starts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.patience import LIMIT_S

_NEVER: Final = -1
_PROGRAM: Final = f"""
import os, runpy, signal, sys
moment, numbers, module = int(sys.argv[1]), [int(one) for one in sys.argv[2].split(",")], sys.argv[3]
seen = -1
def look(event, arguments):
    global seen
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return
    if event in {("import", "open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "tempfile.mkdtemp")!r}:
        seen += 1
        if seen == moment:
            for number in numbers:
                os.kill(os.getpid(), number)
sys.argv = [module, *sys.argv[4:]]
if moment == {_NEVER}:
    os._exit = sys.exit
sys.addaudithook(look)
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
finally:
    if moment == {_NEVER}:
        os.write(2, b"accesses: %d" % seen)
"""


def accesses(module: str, *arguments: object, folder: Path, **variables: str) -> int:
    """How many accesses to files a command has."""
    return int(_run(module, arguments, _NEVER, (), folder, variables).stderr.rpartition("accesses: ")[2])


def signalled(
    module: str, *arguments: object, at: int, numbers: tuple[signal.Signals, ...], folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command that sends itself signals at one of its accesses to files.

    Args:
        module: As after ``python -m``.
        arguments: Of its command line.
        at: Which access, from 0 on.
        numbers: The signals.
        folder: Its working directory.
        variables: Added to its environment.
    """
    return _run(module, arguments, at, numbers, folder, variables)


def _run(
    module: str,
    arguments: tuple[object, ...],
    at: int,
    numbers: tuple[signal.Signals, ...],
    folder: Path,
    variables: Mapping[str, str],
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(folder), "XDG_RUNTIME_DIR": str(folder), **variables}
    signals = ",".join(str(int(number)) for number in numbers) or "0"
    words = [sys.executable, "-P", "-c", _PROGRAM, str(at), signals, module, *map(str, arguments)]
    return subprocess.run(
        words,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
