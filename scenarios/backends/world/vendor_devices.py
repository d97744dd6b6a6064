"""The AMD GPUs and Iluvatar chips of a node: files below its machine's folder, and what reports their health.

AMD's metrics exporter is a server of this process while it is wanted; IXML is files. Both backends make them so.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fakegpu.vendors import iluvatar
from fakegpu.vendors.amd import machine as amd
from fakegpu.vendors.amd.exporter import SOCKET as EXPORTER
from fakegpu.vendors.amd.exporter import exporter
from fakegpu.vendors.amd.model import load_amd_profile

__all__ = ["EXPORTER", "VendorDevices"]


class VendorDevices:
    """Those of one node.

    Args:
        folder: Of the machine, which may have GPUs of NVIDIA as well.
        amd_gpus: The keys and values of an `AmdSpec`, None for none.
        iluvatar_chips: Those of an `IluvatarSpec`.

    Attributes:
        ids: Of the hardware, by which plugins name their devices too.

    Raises:
        FakeGpuError: They cannot be made.
    """

    def __init__(
        self, folder: Path, amd_gpus: Mapping[str, Any] | None, iluvatar_chips: Mapping[str, Any] | None
    ) -> None:
        self._folder = folder
        self._exporter = ExitStack()
        self._has_exporter = amd_gpus is not None and bool(amd_gpus["exporter"])
        self._amd = () if amd_gpus is None else _make_amd(folder, amd_gpus)
        self._chips = () if iluvatar_chips is None else _make_iluvatar(folder, iluvatar_chips)

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self._amd, *self._chips)

    def serve(self, root: Path) -> None:
        """Let the exporter, where there is one, listen in the node's file system that is seen at `root`.

        Raises:
            HostError: It cannot.
        """
        if self._has_exporter:
            place = root / EXPORTER.relative_to("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            # A link, as a socket cannot lie so deep in a folder whose name is long.
            socket = self._folder.parent / "exporter.sock"
            self._exporter.enter_context(exporter(self._folder, socket))
            place.symlink_to(socket)

    def close(self) -> None:
        """End the exporter."""
        self._exporter.close()

    def tell_health(self, device: str, *, healthy: bool) -> None:
        """Let the vendor's monitor report one of `ids` as healthy or not."""
        if device in self._chips:
            iluvatar.set_health(self._folder, device, 0 if healthy else iluvatar.ECC_ERROR)
        else:
            amd.set_health(self._folder, device, healthy=healthy)


def _make_amd(folder: Path, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    profile = load_amd_profile(wanted["profile"])
    count = wanted["count"] or len(profile.server.slots)
    devices = amd.write_amd(folder, profile, count, compute=wanted["compute"], memory=wanted["memory"])
    return tuple(device.name for device in devices)


def _make_iluvatar(folder: Path, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    chips = iluvatar.write_iluvatar(folder, wanted["count"], wanted["chips_per_board"])
    return tuple(chip.uuid for chip in chips)
