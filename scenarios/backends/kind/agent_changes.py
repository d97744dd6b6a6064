"""The files and the fake devices of a node, as the agent makes and changes them.

The path of everything that it makes on the node is recorded in `CREATED`, so that it can be removed after the story.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..world.hardware import VendorDevices

CDI_HOOKS: Final = (Path("/usr/bin/nvidia-ctk"), Path("/usr/bin/nvidia-cdi-hook"))
"""The programs that NVIDIA's plugin may name for the hooks of its CDI specifications; the first by default."""
_NULL: Final = (1, 3)
"""Major and minor number of ``/dev/null``, which stands for the devices of vendors."""
_DEVICE_MODE: Final = 0o666


class AgentDevices:
    """Does what concerns devices."""

    def __init__(self) -> None:
        self._devices: VendorDevices | None = None

    def do_machine(self, cdi: str, driver: str, **gpus: Any) -> dict[str, Any]:
        """Create the fake machine and its driver; return a plugin's settings for both, and the CDI specification.

        The specification is of the kind `cdi`; `driver` is the driver's folder, below the run's.
        """
        from fakegpu import cdi_spec, make_cdi_hook, make_driver_root

        from ..world.hardware import driver_environment, make_gpus

        machine = make_gpus(PLACE / "machine", **gpus)
        make_driver_root(machine, Path(driver))
        _make_device_nodes()
        for hook in (HOST / place.relative_to("/") for place in CDI_HOOKS):
            if not hook.exists():
                note_created(hook)
                make_cdi_hook(hook)
        return {
            "environment": {**machine.environment(), **driver_environment(driver)},
            "cdi": json.dumps(cdi_spec(machine, cdi)),
        }

    def do_devices(self, amd: dict[str, Any] | None, iluvatar: dict[str, Any] | None) -> list[str]:
        """Make AMD GPUs and Iluvatar chips, with device nodes that a container can be given; their ids."""
        from ..world.hardware import EXPORTER, VendorDevices

        self._devices = VendorDevices(PLACE / "machine", amd, iluvatar)
        note_created(HOST / EXPORTER.relative_to("/"))
        self._devices.serve(HOST)
        _make_device_nodes()
        return list(self._devices.ids)

    def do_tell_health(self, device: str, healthy: bool) -> None:
        """Let the vendor's monitor report one of these devices as healthy or not."""
        assert self._devices is not None  # noqa: S101  # a story that does this has devices
        self._devices.tell_health(device, healthy=healthy)

    def do_gpus(self) -> dict[str, str]:
        """Index -> UUID of the GPUs and MIG devices of the fake machine."""
        from fakegpu import Machine

        from ..world.hardware import names

        return names(Machine.open(PLACE / "machine"))

    def do_change_gpus(self, verb: str, given: dict[str, Any]) -> None:
        """Break, fix or divide the GPUs."""
        from fakegpu import Machine

        from ..world.hardware import change

        change(Machine.open(PLACE / "machine"), verb, **given)
        _make_device_nodes()


def _make_device_nodes() -> None:
    """Make a node's device for each of its machine that is not there yet: a container can be given it."""
    made = PLACE / "machine" / "dev"
    for file in (path for path in made.rglob("*") if path.is_file()):
        place = HOST / "dev" / file.relative_to(made)
        if not place.exists():
            note_created(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(place, stat.S_IFCHR | _DEVICE_MODE, os.makedev(*_NULL))


HOST: Final = Path("/host")
"""Where the agent sees the node's root."""
PLACE: Final = Path("/var/lib/simkubelet")
"""The run's folder, on the node and for the agent."""
CREATED: Final = PLACE / "created"
"""The topmost path of each that was made on the node, a line each: what has to go in the end."""


class AgentFiles:
    """Does what concerns files."""

    def do_create_file(self, path: str, content: str) -> None:
        """Make a file, and the folders above it."""
        place = HOST / path.lstrip("/")
        note_created(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("x") as file:
            file.write(content)

    def do_create_link(self, path: str, target: str) -> None:
        """Make a symbolic link, and the folders above it."""
        place = HOST / path.lstrip("/")
        note_created(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def do_write_file(self, path: str, content: str) -> None:
        """Give a file another content."""
        (HOST / path.lstrip("/")).write_text(content)

    def do_move_file(self, path: str, to: str) -> None:
        """Give a file another path where nothing is in its way."""
        place = HOST / to.lstrip("/")
        if os.path.lexists(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to)
        note_created(place)
        (HOST / path.lstrip("/")).rename(place)

    def do_create_folder(self, path: str) -> None:
        """Make a folder, and those above it."""
        place = HOST / path.lstrip("/")
        note_created(place)
        place.mkdir(parents=True)

    def do_remove_file(self, path: str) -> None:
        """Remove a file."""
        (HOST / path.lstrip("/")).unlink()


def note_created(place: Path) -> None:
    """Take note of what is about to be made, with the folders above it."""
    missing = [one for one in (place, *place.parents) if not one.exists()]
    with CREATED.open("a") as created:
        created.write(f"/{missing[-1].relative_to(HOST)}\n" if missing else "")
