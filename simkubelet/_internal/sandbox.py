"""Runs a program in the view of a simulated node: a mount namespace in which the node's files lie over the host's.

A plugin that was written for a node has the node's paths built in, ``/var/lib/kubelet/device-plugins`` first of all.
Here those paths are folders and files of a simulated node, for this program alone; the rest is the host's, read-only.
It takes root or user namespaces, and nothing that is not on every Linux.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from ..model.errors import HostError
from . import bundle, enter_view
from .enter_view import is_stand_in

__all__ = ["NodeView", "check_sandbox", "has_strangers", "is_stand_in", "sandboxed", "tied_to_parent"]

_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from _internal import enter_view; sys.exit(enter_view.main(sys.argv[1:]))"
)
"""Imports the module from its folder: a file that is run is compiled at each start, an imported one only once."""
_PROBE: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from _internal import isolation; isolation.Stranger().owning(sys.argv[2])"
)
_LAUNCHER: Final = (sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(enter_view.__file__).parents[1]))


@dataclass(frozen=True, slots=True)
class NodeView:
    """What each path of a node's view shows.

    Attributes:
        root: The node's own tree. What it has replaces what the host has, and folders that both have show the entries
            of both. A relative link in it is a link of the node; an absolute one leads to a part of the node's tree
            that is elsewhere.
        storage: A folder for what is written into folders that host and node share, made where it is missing. Each
            view of a node may have the same one.
        places: Path -> the folder or file that is shown there as a whole, and can be written.
        hidden: Patterns of paths of which the host's are not shown.
        opened: Folders of the host that take new entries, besides those that host and node both have.
        devices: The folder of the node's device nodes, plain files that are shown as character devices.
        kept: Folders and devices of the host that stay where they are, and can be written. With any, all that a plugin
            can write is in them, whatever has become of the links that lead there.
    """

    root: Path
    storage: Path
    places: Mapping[str, Path] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    devices: Path | None = None
    kept: tuple[Path, ...] = ()


def sandboxed(command: Sequence[str], view: NodeView) -> list[str]:
    """The argv that runs `command` in a view; it keeps its process id and dies when its parent does.

    Folders of the host that a place of the view would hide, as one below ``/tmp``, stay for the program, read-only,
    where its command line, its environment or its working directory names them.
    """
    python = (sys.prefix, sys.base_prefix, str(bundle.CHECKOUT))
    described = {
        "root": str(view.root.resolve()),
        "storage": str(view.storage.resolve()),
        "places": {path: str(place.resolve()) for path, place in view.places.items()},
        "hidden": view.hidden,
        "opened": view.opened,
        "devices": None if view.devices is None else str(view.devices.resolve()),
        "kept": [str(folder.resolve()) for folder in view.kept],
        "seen": sorted({str(Path(folder).resolve()) for folder in python}),
    }
    return [*_LAUNCHER, json.dumps(described), *command]


def tied_to_parent(command: Sequence[str]) -> list[str]:
    """The argv that runs `command` so that it is killed when its parent dies, even by a signal nobody can catch.

    Where there is no ``setpriv`` (util-linux) it is `command` itself.
    """
    return ["setpriv", "--pdeathsig", "KILL", "--", *command] if shutil.which("setpriv") else list(command)


def has_strangers(folder: Path) -> bool:
    """Whether root's plugins and containers with a node in a folder are another user for the host."""
    command = [*_LAUNCHER[:-2], _PROBE, _LAUNCHER[-1], str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def check_sandbox() -> None:
    """Make sure that `sandboxed` will work here.

    Raises:
        HostError: the kernel refuses the namespace.
    """
    _try(_LAUNCHER)


@cache
def _try(launcher: tuple[str, ...]) -> None:
    """Start the launcher once; what works is remembered, what is refused is tried again."""
    trial = subprocess.run(launcher, capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        raise HostError(
            f"cannot show a plugin its node as root sees it ({trial.stderr.strip() or trial.returncode}): "
            f"that takes a mount namespace; {_remedy()}"
        )


def _remedy() -> str:
    if os.geteuid() == 0:
        return "this container needs more rights (docker run --privileged)"
    return "run as root or allow user namespaces (sysctl user.max_user_namespaces)"
