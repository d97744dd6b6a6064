"""Runs a program in the view of a simulated node, in which the node's files lie over the host's.

A plugin that was written for a node has the node's paths built in, ``/var/lib/kubelet/device-plugins`` first of all.
Here those paths are folders and files of a simulated node, for this program alone; the rest is the host's, read-only.

That is done by a mount namespace, which takes root or user namespaces, or, where the kernel refuses that as in an
ordinary container, by a supervisor that translates the paths of the program's calls; it needs no privilege.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from ..model.errors import HostError
from . import bundle, enter_view
from .native import find_supervisor
from .view_tree import is_stand_in

__all__ = [
    "NodeView",
    "check_sandbox",
    "cluster_home",
    "has_strangers",
    "is_stand_in",
    "sandboxed",
    "tied_to_parent",
]

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
        places: Path -> the folder or file that is shown there as a whole, and can be written; also below another one.
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


def cluster_home() -> Path:
    """The folder of this user's clusters, in which each has the keys of its administrator; no program is shown it.

    Source: XDG Base Directory Specification 0.8: a relative path is ignored.
    """
    given = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    return given / "simkubelet" if given.is_absolute() else Path("/tmp", f"simkubelet-{os.getuid()}")  # noqa: S108


def sandboxed(
    command: Sequence[str],
    view: NodeView,
    given_args: Sequence[str] = (),
    given_env: Mapping[str, str] | None = None,
    *,
    has_own_network: bool = False,
) -> list[str]:
    """The argv that runs `command` in a view; it keeps its process id and dies when its parent does.

    Folders of the host that a place of the view would hide, as one below ``/tmp``, stay for the program, read-only,
    where its command line, its environment or its working directory names them. Of the folder of our clusters there is
    the node's own one, and files that are named themselves.

    Args:
        command: The program and its arguments.
        view: What it sees.
        given_args: Further arguments, which name no folders of the host.
        given_env: Further variables, which nothing obeys that runs before the program.
        has_own_network: Whether its network is a loopback device of its own, where the kernel lets it have one.
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
        "clusters": os.path.realpath(cluster_home()),
        "supervisor": None,
        "has_own_network": has_own_network,
    }
    with suppress(HostError):
        # Otherwise the launcher says why there is no namespace.
        described["supervisor"], _ = _way(_LAUNCHER)
    given = {"args": list(given_args), "env": dict(given_env or {})}
    return [*_LAUNCHER, json.dumps(described), json.dumps(given), *command]


def tied_to_parent(command: Sequence[str]) -> list[str]:
    """The argv that runs `command` so that it is killed when its parent dies, even by a signal nobody can catch.

    Where there is no ``setpriv`` (util-linux) it is `command` itself.
    """
    return ["setpriv", "--pdeathsig", "KILL", "--", *command] if shutil.which("setpriv") else list(command)


def has_strangers(folder: Path) -> bool:
    """Whether root's plugins and containers with a node in a folder are another user for the host."""
    command = [*_LAUNCHER[:-2], _PROBE, _LAUNCHER[-1], str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def check_sandbox() -> str:
    """Make sure that `sandboxed` will work here, and say how: by a mount namespace, or by a supervisor, and why.

    Raises:
        HostError: the kernel refuses both.
    """
    supervisor, refused = _way(_LAUNCHER)
    if supervisor is None:
        return "a mount namespace was made"
    return f"a supervisor translates the paths of each plugin by ptrace, as no mount namespace can be made ({refused})"


@cache
def _way(launcher: tuple[str, ...]) -> tuple[str | None, str]:
    """The supervisor of programs in a view, None where each gets a mount namespace, and what refused that.

    What works is remembered, what is refused is tried again.
    """
    refused = _refusal(launcher)
    if not refused:
        return None, ""
    try:
        return _supervisor(launcher), refused
    except HostError as error:
        raise HostError(
            f"cannot show a plugin its node as root sees it: a mount namespace is refused ({refused}), and so is what "
            f"does without ({error}); {_remedy()}"
        ) from None


def supervisor_without_namespace() -> str | None:
    """The supervisor of programs whose files it shows them; None where a mount namespace can do that.

    Raises:
        HostError: the kernel refuses both.
    """
    return _way(_LAUNCHER)[0]


def supervisor() -> str:
    """The supervisor of programs, where it works, also where namespaces can be had.

    Raises:
        HostError: it was not built, or the kernel refuses it.
    """
    return _supervisor(_LAUNCHER)


@cache
def _supervisor(launcher: tuple[str, ...]) -> str:
    found = str(find_supervisor())
    if refused := _refusal((*launcher, found)):
        raise HostError(refused)
    return found


def _refusal(launcher: Sequence[str]) -> str:
    """Start the launcher once; why that fails, empty where it does not."""
    trial = subprocess.run(launcher, capture_output=True, text=True, check=False)
    if trial.returncode == 0:
        return ""
    said = trial.stderr.strip().rpartition("\n")[2]
    return said.removeprefix("cannot make the view of a node: ") or f"status {trial.returncode}"


def _remedy() -> str:
    if os.geteuid() == 0:
        return "this container needs more rights (docker run --cap-add SYS_PTRACE)"
    return "allow user namespaces (sysctl user.max_user_namespaces) or ptrace (sysctl kernel.yama.ptrace_scope=1)"
