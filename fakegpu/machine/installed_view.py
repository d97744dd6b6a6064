"""An installed driver for one command, without a mount namespace: a supervisor translates the paths of its calls.

The supervisor is a program that is built with this package (``simkubelet-view``). It reads from a table which path of
the host stands for each path that the command names: a row is ``w`` or ``r`` for what may be changed, the path and the
real path, each with a zero byte at its end; the first shows the root. Folders that have other entries than the host's,
``/`` and ``/dev``, are folders of the machine, with an empty file or folder for each entry.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import HostError
from ..files.folder import host_errors
from ..files.tree import VIEW
from ..state.library import find_built

if TYPE_CHECKING:
    from .machine import Machine

_SUPERVISOR: Final = "simkubelet-view"
_REFUSED: Final = 125
_NOTHING: Final = Path("/dev/null")
_Row = tuple[str, str, Path]


def supervised(machine: Machine, command: Sequence[str], refused: str) -> list[str]:
    """Return the command line that shows a command an installed driver.

    Args:
        machine: Its device nodes, PCI folders and ``/proc/driver`` are shown.
        command: A program and its arguments.
        refused: Why there is no mount namespace.

    Raises:
        HostError: the program is not there, or the kernel refuses it.
    """
    import subprocess

    supervisor = find_built(f"simkubelet/lib/{_SUPERVISOR}")
    if supervisor is None:
        raise _neither(refused, f"{_SUPERVISOR} is not built for this machine")
    with host_errors(machine.directory):
        rows = list(_rows(machine, machine.directory / VIEW))
    # The supervisor inherits it.
    table = os.memfd_create(VIEW, 0)
    os.write(table, os.fsencode("".join(f"{kind}\0{path}\0{real}\0" for kind, path, real in rows)))
    argv = [str(supervisor), str(table), str(Path.cwd())]
    # Without arguments it says how it is called.
    check = subprocess.run([*argv, argv[0]], capture_output=True, text=True, check=False, pass_fds=(table,))
    if check.returncode == _REFUSED:
        raise _neither(refused, check.stderr.strip())
    return [*argv, *command]


def kernel_files(machine: Machine) -> dict[str, Path]:
    """What of sysfs and procfs a driver has -> what stands for it."""
    return {
        "/sys/bus/pci/devices": machine.sys / "bus/pci/devices",
        "/proc/driver": machine.proc / "driver",
        "/proc/modules": machine.proc / "modules",
        "/proc/devices": machine.proc / "devices",
    }


def _neither(refused: str, reason: str) -> HostError:
    return HostError(
        f"--driver-root: {refused}, and what does without is refused, too ({reason}); "
        "install bubblewrap, or leave the option out"
    )


def _rows(machine: Machine, root: Path) -> Iterator[_Row]:
    yield ("w", "", root)
    _furnish(root, Path("/"), {"dev": root, "proc": root, "sys": root})
    yield from _shown("", [path for path in Path("/").iterdir() if path.name != "dev"])
    own = {path.name: path for path in machine.dev.iterdir()}
    _furnish(root / "dev", Path("/dev"), own)
    yield from _shown("/dev", [path for path in Path("/dev").iterdir() if path.name not in own])
    for folder in (path for path in machine.dev.rglob("*") if path.is_dir()):
        _furnish(root / "dev" / folder.relative_to(machine.dev), None, {path.name: path for path in folder.iterdir()})
    for node in (path for path in machine.dev.rglob("*") if path.is_file()):
        yield ("w", f"/dev/{node.relative_to(machine.dev)}", _NOTHING)
    for place, real in kernel_files(machine).items():
        yield ("r", place, real)


def _shown(folder: str, entries: Sequence[Path]) -> Iterator[_Row]:
    """The host's entries of a folder, but links, which are copied."""
    for path in entries:
        if not path.is_symlink():
            yield ("w", f"{folder}/{path.name}", path)


def _furnish(folder: Path, host: Path | None, own: Mapping[str, Path]) -> None:
    """Let a folder have the entries of the host's and those of `own`; other processes may do the same at once."""
    folder.mkdir(exist_ok=True)
    wanted = {**({path.name: path for path in host.iterdir()} if host else {}), **own}
    for path in folder.iterdir():
        if path.name not in wanted:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    for name, path in wanted.items():
        there = folder / name
        if os.path.lexists(there):
            continue
        if path.is_symlink():
            there.symlink_to(path.readlink())
        elif path.is_dir():
            there.mkdir(exist_ok=True)
        else:
            there.touch()
