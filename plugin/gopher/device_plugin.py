"""The gopher resource: files as devices, their names in the environment of the container.

Source: i-device-plugin (github.com/lixd), whose article this follows; where its code falls short of the article (a
kubelet restart is never noticed, renamed files stay), the article's promise is kept.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar

from simkubelet.apis import deviceplugin as api

from ..framework import Device, DeviceID, DeviceList, DevicePlugin, PluginOptions, ResourceName
from .directory_watch import DirectoryWatch

__all__ = ["GopherPlugin"]

_log = logging.getLogger(__name__)


class GopherPlugin(DevicePlugin):
    """One device for each file name below `directory`; always healthy, gone with the file."""

    resource_name: ClassVar[ResourceName] = ResourceName("lixueduan.com/gopher")
    socket_name: ClassVar[str] = "gopher.sock"
    options: ClassVar[PluginOptions] = PluginOptions(pre_start_required=True)

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        """The files now, then after each change; the directory gone is a `FatalError`."""
        with DirectoryWatch(self._directory) as watch:
            async with aclosing(watch.device_ids()) as changes:
                async for device_ids in changes:
                    _log.info("%d devices: %s", len(device_ids), ",".join(device_ids))
                    yield tuple(Device(device_id) for device_id in device_ids)

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """Name the devices in ``Gopher``; as in the original nothing is checked, the kubelet knows what it gives."""
        return api.ContainerAllocateResponse(envs={"Gopher": ",".join(device_ids)})
