"""Runs a program in a mount namespace of its own, in which some paths are other than on the host.

A plugin that was written for a node has the node's paths built in, ``/var/lib/kubelet/device-plugins`` first of all.
Here those paths are folders and files of a simulated node, for this program alone; the host's files stay as they are,
also where such a path does not exist. It takes ``unshare`` and ``mount`` (util-linux), and either root or user
namespaces.
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
# into the tmpfs from the folder's open descriptor, as its path is covered by then; -c, as mount would turn the
# descriptor's name into that path. `made` has the folders, each between colons, in which the next target needs no
# tmpfs.
# The root folder cannot be covered so. Where it lacks a target the program gets another root: a tmpfs with all of the
# old one, which lies over /dev, a folder that every host has. The script, which is its own $0, then goes on in there.
_SCRIPT: Final = r"""
set -eu
made=:
bind() {
    if [ -L "$1" ]; then
        ln -s "$(readlink "$1")" "$2"
    elif [ -d "$1" ]; then
        # Not new below /run: there mount keeps its own notes.
        mkdir -p "$2"
        mount -c --rbind "$1" "$2"
    elif [ -e "$1" ]; then
        : >"$2"
        mount -c --bind "$1" "$2"
    fi
}
bind_all() {
    for entry in "$1"/* "$1"/.[!.]*; do bind "$entry" "$2/${entry##*/}"; done
}
make_room() {
    ancestor=$1
    while [ ! -d "$ancestor" ]; do ancestor=$(dirname "$ancestor"); done
    case $made in *:"$ancestor":*) mkdir -p "$1"; return;; esac
    made=$made$ancestor:
    exec 3<"$ancestor"
    mount -t tmpfs -o mode=0755 simkubelet "$ancestor"
    bind_all /proc/self/fd/3 "$ancestor"
    exec 3<&-
    mkdir -p "$1"
}
make_root() {
    exec 3</dev
    mount -t tmpfs -o mode=0755 simkubelet /dev
    mkdir /dev/dev
    bind_all /proc/self/fd/3 /dev/dev
    exec 3<&-
    for entry in /* /.[!.]*; do
        [ "$entry" = /dev ] || bind "$entry" "/dev$entry"
    done
    SIMKUBELET_CWD=$PWD
    export SIMKUBELET_CWD
}
lacks_place() {
    while [ "$1" != -- ]; do
        below=${2#/}
        [ -e "/${below%%/*}" ] || return 0
        shift 2
    done
    return 1
}
if [ -n "${SIMKUBELET_CWD:-}" ]; then
    made=:/:/dev:
elif lacks_place "$@"; then
    make_root
    exec chroot /dev sh -c "$0" "$0" "$@"
fi
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then
        [ -d "$2" ] || make_room "$2"
    elif [ ! -e "$2" ]; then
        folder=$(dirname "$2")
        make_room "$folder"
        made=$made$folder:
        : >"$2"
    fi
    mount -c --rbind "$1" "$2"
    shift 2
done
shift
if [ -n "${SIMKUBELET_CWD:-}" ]; then
    cd "$SIMKUBELET_CWD"
    unset SIMKUBELET_CWD
fi
exec "$@"
"""


def sandboxed(command: Sequence[str], places: Mapping[str, Path]) -> list[str]:
    """The argv that runs `command` with `places` in place; it keeps its process id and gets all signals itself.

    Args:
        command: Program and arguments.
        places: Absolute path as the program sees it -> folder or file of the host that stands there.
    """
    binds = [part for target, source in places.items() for part in (str(source), target)]
    # Inside, as a user namespace takes the tie away.
    return [*_unshare(), "sh", "-c", _SCRIPT, _SCRIPT, *binds, "--", *tied_to_parent(command)]


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
        raise HostError(
            f"{' and '.join(missing)} not found: to show a plugin the files of its node takes the package util-linux"
        )
    trial = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        raise HostError(
            f"cannot show a plugin its node as root sees it ({trial.stderr.strip() or trial.returncode}): "
            f"that takes a mount namespace; {_remedy()}"
        )


def _remedy() -> str:
    if os.geteuid() == 0:
        return "this container needs more rights (docker run --privileged)"
    return "run as root or allow user namespaces (sysctl user.max_user_namespaces)"


def _unshare() -> list[str]:
    namespaces = ["--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        namespaces += ["--user", "--map-root-user"]
    return ["unshare", *namespaces, "--"]
