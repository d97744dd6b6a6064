"""The sandbox of one container: what is mounted where, as arguments of bubblewrap.

A container has its own mounts, process ids, IPC and host name; it shares the network of the host. Its root file system
is the host's image (`host_image`), its ``/dev`` has the standard nodes and those that were asked for. Inside, the
program is process 1 and user 0 without a single capability, whichever user runs the simulator.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..model.errors import HostError
from .host_image import HostImage

__all__ = ["Bind", "bubblewrap_program", "check_bubblewrap", "sandbox_arguments"]

_NAMESPACES: Final = (
    *("--unshare-user", "--uid", "0", "--gid", "0", "--cap-drop", "ALL"),
    *("--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts"),
    *("--die-with-parent", "--new-session", "--clearenv"),
)


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or folder of the host, to be shown in the container; with `is_device` it may be a device node.

    With `is_link` there is a symbolic link to `source`, a path of the container.
    """

    source: str
    target: str
    is_read_only: bool = False
    is_device: bool = False
    is_link: bool = False

    def arguments(self, place: str) -> list[str]:
        """Return the arguments with which bubblewrap shows it at `place`."""
        if self.is_link:
            return ["--symlink", self.source, place]
        if self.is_read_only:
            return ["--ro-bind", self.source, place]
        return ["--dev-bind" if self.is_device else "--bind", self.source, place]


def sandbox_arguments(image: HostImage, hostname: str, sys_folder: str, binds: Sequence[Bind]) -> list[str]:
    """All arguments of ``bwrap`` but those for descriptors and the program.

    Args:
        image: The root file system.
        hostname: At most 63 characters, as the kubelet cuts the pod's name.
        sys_folder: The folder that is shown at ``/sys``, read-only.
        binds: What was asked for. Of equal targets the last counts; a higher one never hides a deeper one.
    """
    placed = {image.place(bind.target): bind for bind in binds}
    places = sorted(placed, key=lambda place: (place.count("/"), place))
    arguments = [*_NAMESPACES, "--hostname", hostname]
    # The empty /tmp comes first: the image's Python may be below the host's.
    arguments += ["--perms", "1777", "--tmpfs", "/tmp", *image.arguments()]  # noqa: S108 - the container's
    arguments += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", sys_folder, "/sys"]
    arguments += image.room_arguments(places, {place for place in places if placed[place].is_link})
    for place in places:
        arguments += placed[place].arguments(place)
    return arguments


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
    command = [bubblewrap_program(), *_NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    trial = subprocess.run(command, capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        said = trial.stderr.strip().removeprefix("bwrap: ") or f"status {trial.returncode}"
        raise HostError(
            f"bwrap cannot make a container here ({said}); allow user namespaces (sysctl user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0) or run outside of another container"
        )
