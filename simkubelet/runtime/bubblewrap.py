"""The sandbox of one container: its image and what is mounted where, as arguments of bubblewrap.

A container has its own mounts, process ids, IPC and host name, and the network of its pod, which is a loopback device.
Its ``/dev`` has the standard nodes and those that were asked for. Inside, the program is process 1 and user 0: for the
host the user who runs the simulator, without a single capability, or, where that is root, a user of nobody
(`_container_init`). Keys that others may not read are not there.

There is no registry and nothing to unpack, so whatever ``image`` a manifest names, a container finds the host's system
folders and the Python that runs the simulator, its packages included. The rest of the host is not there.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from .._internal import bundle
from ..model.errors import HostError

__all__ = [
    "Bind",
    "HostImage",
    "bubblewrap_program",
    "check_bubblewrap",
    "file_arguments",
    "is_run_by_root",
    "placed",
    "sandbox_arguments",
    "staged",
]

_AS_USER: Final = (
    *("--unshare-user", "--uid", "0", "--gid", "0", "--cap-drop", "ALL"),
    # For `_container_init`, which gives them up.
    *("--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_SETPCAP"),
)
_NAMESPACES: Final = (
    *("--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts"),
    *("--die-with-parent", "--new-session", "--clearenv"),
)

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS: Final = (
    "alternatives",
    "ca-certificates",
    "group",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "passwd",
    "pki",
    "protocols",
    "resolv.conf",
    "services",
    "ssl",
)
_MASKED: Final = (
    "asound",
    "acpi",
    "kcore",
    "keys",
    "latency_stats",
    "timer_list",
    "timer_stats",
    "sched_debug",
    "scsi",
)
"""What of ``/proc`` a container finds empty.

Source: containerd v2.1.4, pkg/oci/spec.go, ``populateDefaultUnixSpec``.
"""
_MAY_MOUNT: Final = 1 << 21
_SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ORIGINALS: Final = "/.image"
_STAGED: Final = "/.mounts"


def _links_from(program: Path) -> Iterator[tuple[str, str]]:
    """The links between a program's path and its file: an environment's Python may be one to a link elsewhere."""
    while program.is_symlink():
        yield str(program), str(program.readlink())
        program = Path(os.path.normpath(program.parent / program.readlink()))


@dataclass(frozen=True, slots=True)
class HostImage:
    """Folders of the host that containers see at the same place, read-only.

    A mount may lead to a path in these folders that the host does not have, a driver library for one. Nobody can make a
    mount point in a read-only folder, so the nearest folder that exists is replaced by a writable one, in which links
    lead to the entries of the original.

    Attributes:
        folders: Real folders, shown read-only; none is inside another.
        links: Path -> what the symbolic link there says, as ``/lib`` -> ``usr/lib``.
        search_path: ``PATH`` of a container that sets none.
        python: The interpreter, one inside `folders`.
    """

    folders: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    search_path: str
    python: str

    @classmethod
    def of_this_host(cls) -> HostImage:
        present = [path for path in map(Path, _SYSTEM) if path.is_dir()]
        links = [(str(path), str(path.readlink())) for path in present if path.is_symlink()]
        # An editable install has its packages in the checkout.
        python = [sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix), str(bundle.CHECKOUT)]
        found = dict.fromkeys([*(str(path) for path in present if not path.is_symlink()), *python])
        folders = [folder for folder in found if not any(_is_in(folder, other) for other in found if other != folder)]
        to_python = _links_from(Path(sys.executable))
        links += [link for link in to_python if not any(_is_in(link[0], folder) for folder in folders)]
        own_bin = f"{sys.prefix}/bin"
        own_path = "" if own_bin in _SEARCH_PATH.split(":") else f"{own_bin}:"
        return cls(tuple(folders), tuple(links), f"{own_path}{_SEARCH_PATH}", os.path.realpath(sys.executable))

    def arguments(self) -> list[str]:
        """The arguments of bubblewrap that make the root file system."""
        arguments = []
        for folder in self.folders:
            arguments += ["--ro-bind", folder, folder]
        for path, link in self.links:
            arguments += ["--symlink", link, path]
        for name in _SETTINGS:
            arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        for path in _secrets():
            arguments += _nothing_at(path)
        arguments += ["--dir", "/root", "--dir", "/run", "--symlink", "../run", "/var/run"]
        return [*arguments, "--perms", "1777", "--dir", "/var/tmp"]  # noqa: S108 - the container's

    def place(self, path: str) -> str:
        """Where a path of the container really is, after the links of the image."""
        path = os.path.normpath(f"/{path.lstrip('/')}")
        for link, to in (*self.links, ("/var/run", "../run")):
            if _is_in(path, link):
                path = os.path.normpath(f"{link}/../{to}{path[len(link) :]}")
        if not self._owner(path):
            return path
        ancestor = _nearest(path)
        return os.path.normpath(os.path.realpath(ancestor) + path[len(ancestor) :])

    def room_arguments(self, places: Sequence[str], replaced: Collection[str] = ()) -> list[str]:
        """The arguments of bubblewrap after which something can be mounted at `places` (see `place`).

        Nothing is left of what is at those that are `replaced`.
        """
        owned = [place for place in places if self._owner(place)]
        opened = sorted({_folder(place) for place in owned if place in replaced or not os.path.lexists(place)})
        owners = sorted({owner for folder in opened if (owner := self._owner(folder))})
        arguments = []
        for owner in owners:
            arguments += ["--ro-bind", owner, _ORIGINALS + owner]
        for folder in opened:
            arguments += ["--tmpfs", folder, *_entries(folder, [*places, *opened])]
        return arguments

    def _owner(self, path: str) -> str | None:
        return next((folder for folder in self.folders if _is_in(path, folder)), None)


@cache
def _secrets() -> tuple[str, ...]:
    """What of the settings only its owner or a group may read; of a folder the folder alone."""
    found: list[Path] = []
    for top in _SETTINGS:
        for path in sorted(Path("/etc", top).rglob("*")):
            if not path.is_symlink() and not path.stat().st_mode & stat.S_IROTH:
                found += () if found and path.is_relative_to(found[-1]) else (path,)
    return tuple(map(str, found))


def _nothing_at(path: str) -> list[str]:
    """The arguments of bubblewrap that show nothing in the place of a file or folder."""
    return ["--tmpfs", path] if Path(path).is_dir() else ["--ro-bind", "/dev/null", path]


def _entries(folder: str, places: Sequence[str]) -> Iterator[str]:
    """What an opened folder shows of its original: links, and real folders where something is mounted further down."""
    for entry in sorted(Path(folder).iterdir()):
        path = str(entry)
        if path in places and not (entry.is_dir() and _has_below(path, places)):
            continue
        if entry.is_symlink():
            yield from ("--symlink", str(entry.readlink()), path)
        elif _has_below(path, places):
            yield from ("--ro-bind", path, path)
        else:
            yield from ("--symlink", _ORIGINALS + path, path)


def _has_below(folder: str, places: Iterable[str]) -> bool:
    return any(place != folder and _is_in(place, folder) for place in places)


def _folder(path: str) -> str:
    return _nearest(os.path.dirname(path))  # noqa: PTH120


def _nearest(path: str) -> str:
    """The path itself or the nearest ancestor that the host has."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)  # noqa: PTH120
    return path


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or folder of the host, to be shown in the container; with `is_device` it may be a device node.

    With `is_link` there is a symbolic link to `source`, a path of the container. Bubblewrap makes no link and mounts
    nothing at `target`, see `staged`.
    """

    source: str
    target: str
    is_read_only: bool = False
    is_device: bool = False
    is_link: bool = False

    def arguments(self, place: str) -> list[str]:
        """Return the arguments with which bubblewrap shows it at `place`."""
        if self.is_read_only:
            return ["--ro-bind", self.source, place]
        return ["--dev-bind" if self.is_device else "--bind", self.source, place]


def is_run_by_root() -> bool:
    """Whether containers can be given a user of their own, because we may make mounts for them."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) & _MAY_MOUNT)


def placed(image: HostImage, binds: Iterable[Bind]) -> Mapping[str, Bind]:
    """Place in the container -> what is shown there, a higher place before a deeper one; the last counts."""
    found = {image.place(bind.target): bind for bind in binds}
    return {place: found[place] for place in sorted(found, key=lambda place: (place.count("/"), place))}


def staged(number: int) -> str:
    """Where bubblewrap mounts one of what is shown; the container's first program moves it to its place.

    A place may be in a folder of the node, which may have links, and bubblewrap would follow them out of the container.
    """
    return f"{_STAGED}/{number}"


def file_arguments(image: HostImage, shown: Mapping[str, Bind]) -> list[str]:
    """The arguments of ``bwrap`` for a container's files but what was asked for, for which there is room then.

    Args:
        image: The root file system.
        shown: What was asked for, see `placed`.
    """
    # The container's own /tmp and /dev come first: the image's Python may be below the host's /tmp or /dev/shm.
    arguments = ["--perms", "1777", "--tmpfs", "/tmp", "--dev", "/dev", *image.arguments()]  # noqa: S108
    arguments += ["--proc", "/proc", "--ro-bind", "/sys", "/sys"]
    for path in (f"/proc/{name}" for name in _MASKED if Path("/proc", name).exists()):
        arguments += _nothing_at(path)
    return arguments + image.room_arguments(list(shown), {place for place, bind in shown.items() if bind.is_link})


def sandbox_arguments(image: HostImage, hostname: str, shown: Mapping[str, Bind]) -> list[str]:
    """All arguments of ``bwrap`` but those for descriptors, the network and the program.

    Args:
        image: The root file system.
        hostname: At most 63 characters, as the kubelet cuts the pod's name.
        shown: What was asked for, see `placed`.
    """
    arguments = [*_namespaces(), "--hostname", hostname, *file_arguments(image, shown)]
    for number, bind in enumerate(shown.values()):
        arguments += [] if bind.is_link else bind.arguments(staged(number))
    return arguments


def _namespaces() -> tuple[str, ...]:
    """The arguments of bubblewrap for a container's namespaces.

    As root it makes no user namespace: the mounts are root's, and `_container_init` enters one without a part in them.
    """
    return _NAMESPACES if is_run_by_root() else (*_AS_USER, *_NAMESPACES)


def bubblewrap_program() -> str:
    """Where bubblewrap is; a container's sandbox starts with no environment, so with no search path.

    Raises:
        HostError: it is not there.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise HostError(
            "bwrap not found: containers that run need it; install the package bubblewrap "
            "(Debian, Ubuntu: sudo apt-get install bubblewrap)"
        )
    return program


def check_bubblewrap() -> None:
    """Make sure that containers can run here.

    Raises:
        HostError: the program is missing or the kernel refuses the namespaces.
    """
    command = [
        bubblewrap_program(),
        *_namespaces(),
        "--unshare-net",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "true",
    ]
    trial = subprocess.run(command, capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        said = trial.stderr.strip().removeprefix("bwrap: ") or f"status {trial.returncode}"
        raise HostError(
            f"bwrap cannot make a container here ({said}); allow user namespaces (sysctl user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0) or run outside of another container"
        )
