"""Runs a program in a mount namespace of its own, in which some paths are other than on the host.

A plugin that was written for a node has the node's paths built in, ``/var/lib/kubelet/device-plugins`` first of all.
Here those paths are folders of a simulated node, for this program alone; the host's files stay as they are, also where
such a path does not exist. It takes ``unshare`` and ``mount`` (util-linux), and either root or user namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from .errors import HostError

__all__ = ["check_sandbox", "sandboxed", "tied_to_parent"]

# Arguments: source target [source target]... -- program [argument]...
# A target that does not exist is made on a tmpfs over its nearest folder that does; what lies in that folder is bound
# into the tmpfs from the folder's open descriptor, as its path is covered by then.
_SCRIPT: Final = r"""
set -eu
make_room() {
    ancestor=$1
    while [ ! -d "$ancestor" ]; do ancestor=$(dirname "$ancestor"); done
    exec 3<"$ancestor"
    mount -t tmpfs -o mode=0755 simkubelet "$ancestor"
    for entry in /proc/self/fd/3/* /proc/self/fd/3/.[!.]*; do
        place=$ancestor/${entry##*/}
        if [ -L "$entry" ]; then
            ln -s "$(readlink "$entry")" "$place"
        elif [ -d "$entry" ]; then
            mkdir "$place"
            mount --rbind "$entry" "$place"
        elif [ -e "$entry" ]; then
            : >"$place"
            mount --bind "$entry" "$place"
        fi
    done
    exec 3<&-
    mkdir -p "$1"
}
while [ "$1" != -- ]; do
    [ -d "$2" ] || make_room "$2"
    mount --rbind "$1" "$2"
    shift 2
done
shift
exec "$@"
"""


def sandboxed(command: Sequence[str], folders: Mapping[str, Path]) -> list[str]:
    """The argv that runs `command` with `folders` in place; it keeps its process id and gets all signals itself.

    Args:
        command: Program and arguments.
        folders: Absolute path as the program sees it -> folder of the host that stands there.
    """
    binds = [part for target, source in folders.items() for part in (str(source), target)]
    # Inside, as a user namespace takes the tie away.
    return [*_unshare(), "sh", "-c", _SCRIPT, "sh", *binds, "--", *tied_to_parent(command)]


def tied_to_parent(command: Sequence[str]) -> list[str]:
    """The argv that runs `command` so that it is killed when its parent dies, even by a signal nobody can catch.

    Where there is no ``setpriv`` (util-linux) it is `command` itself.
    """
    return ["setpriv", "--pdeathsig", "KILL", "--", *command] if shutil.which("setpriv") else list(command)


def check_sandbox() -> None:
    """Make sure that `sandboxed` will work here.

    Raises:
        HostError: the programs are missing or the kernel refuses the namespace.
    """
    missing = [program for program in ("unshare", "mount") if shutil.which(program) is None]
    if missing:
        raise HostError(f"{' and '.join(missing)} not found: a plugin given as a command needs util-linux to run")
    trial = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        raise HostError(
            "cannot make a mount namespace for a plugin given as a command "
            f"({trial.stderr.strip() or trial.returncode}); run as root or allow user namespaces"
        )


def _unshare() -> list[str]:
    namespaces = ["--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        namespaces += ["--user", "--map-root-user"]
    return ["unshare", *namespaces, "--"]
