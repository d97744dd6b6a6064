"""The gopher resource: files as devices, their names in the environment of the container.

Source: i-device-plugin (github.com/lixd) and the article about it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from simkubelet.apis import deviceplugin as api

from ..command.plugin_command import Quirks
from ..framework import Device, DeviceID, DeviceList, DevicePlugin, PluginOptions, ResourceName
from .directory_watch import DirectoryWatch, OriginalWatch

__all__ = ["GopherPlugin"]

_log = logging.getLogger(__name__)


class GopherPlugin(DevicePlugin):
    """One device for each file name below `directory`; always healthy, gone with the file."""

    resource_name = ResourceName("lixueduan.com/gopher")
    socket_name = "gopher.sock"
    options = PluginOptions(pre_start_required=True)

    def __init__(self, directory: Path, quirks: Quirks = Quirks.ARTICLE) -> None:
        self._directory = directory
        self._watch = OriginalWatch if quirks is Quirks.ORIGINAL else DirectoryWatch

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        """The files now, then after each change; the directory gone is a `FatalError`."""
        with self._watch(self._directory) as watch:
            async with aclosing(watch.device_ids()) as changes:
                async for device_ids in changes:
                    _log.info("%d devices: %s", len(device_ids), ",".join(device_ids))
                    yield tuple(Device(device_id) for device_id in device_ids)

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """Name the devices in ``Gopher``; as in the original nothing is checked, the kubelet knows what it gives."""
        return api.ContainerAllocateResponse(envs={"Gopher": ",".join(device_ids)})

    async def pre_start(self, device_ids: Sequence[DeviceID]) -> None:
        """Nothing needs to be prepared, though the original asks for the call."""
        _log.info("A container starts with %s", ",".join(device_ids))
