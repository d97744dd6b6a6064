"""The resource of a `Description`: files as devices, or devices that are nothing but a number."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet.apis import deviceplugin as api

from ..framework import AllocationRefusedError, Device, DeviceID, DeviceList, DevicePlugin, Health, ResourceName
from .description import Description, DeviceGlob
from .glob_watch import GlobWatch

__all__ = ["GenericPlugin"]

_log = logging.getLogger(__name__)

_REPLICA: Final = "::"


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    glob: DeviceGlob
    is_there: bool = True


class GenericPlugin(DevicePlugin):
    """Serves one description.

    A file that appears is a new device. One that vanishes is unhealthy until it is back: a pod may hold it.
    """

    def __init__(self, description: Description, host_root: Path) -> None:
        self.resource_name = ResourceName(description.resource)
        self.socket_name = description.socket_name
        self._description = description
        self._host_root = host_root
        self._files: dict[str, _File] = {}

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        """The devices now, then after each change of their files."""
        if not self._description.globs:
            yield self._offered({str(number): Health.HEALTHY for number in range(self._description.count)})
            await asyncio.Event().wait()
        with GlobWatch(self._host_root, [glob.glob for glob in self._description.globs]) as watch:
            async with aclosing(watch.found()) as changes:
                async for found in changes:
                    self._take(found)
                    there = {name: file.is_there for name, file in self._files.items()}
                    _log.info("%d of %d files are there", sum(there.values()), len(there))
                    yield self._offered(
                        {name: Health.HEALTHY if is_there else Health.UNHEALTHY for name, is_there in there.items()}
                    )

    def _take(self, found: Sequence[Sequence[str]]) -> None:
        """Keep which files there are; one that several globs find is that of the first."""
        known = {name: _File(file.path, file.glob, is_there=False) for name, file in self._files.items()}
        there = {
            _name(path): _File(path, glob)
            for glob, paths in reversed(list(zip(self._description.globs, found, strict=True)))
            for path in paths
        }
        self._files = dict(sorted((known | there).items()))

    def _offered(self, devices: dict[str, Health]) -> DeviceList:
        replicas = self._description.replicas
        return tuple(
            Device(DeviceID(name if replicas == 1 else f"{name}{_REPLICA}{replica}"), health)
            for name, health in devices.items()
            for replica in range(replicas)
        )

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """The files as device nodes or mounts at their own paths, the mounts and variables of the description.

        Raises:
            AllocationRefusedError: there is no such device, or its file has gone.
        """
        names = list(dict.fromkeys(self._name(device_id) for device_id in device_ids))
        files = [self._files[name] for name in names if self._description.globs]
        response = api.ContainerAllocateResponse()
        for file in files:
            if file.glob.is_mount:
                read_only = "w" not in file.glob.permissions
                response.mounts.add(host_path=file.path, container_path=file.path, read_only=read_only)
            else:
                response.devices.add(host_path=file.path, container_path=file.path, permissions=file.glob.permissions)
        for mount in self._description.mounts:
            response.mounts.add(
                host_path=mount.host_path, container_path=mount.mount_path, read_only=mount.is_read_only
            )
        values = {"devices": ",".join(names), "paths": ",".join(file.path for file in files)}
        for variable, text in self._description.env.items():
            response.envs[variable] = re.sub(r"\{(\w+)\}", lambda found: values[found[1]], text)
        return response

    def _name(self, device_id: DeviceID) -> str:
        """The device of an id, without its replica's number.

        Raises:
            AllocationRefusedError: there is none.
        """
        name, _, replica = device_id.rpartition(_REPLICA) if self._description.replicas > 1 else (device_id, "", "0")
        is_number = replica.isdecimal() and int(replica) < self._description.replicas
        if self._description.globs:
            file = self._files.get(name)
            if file is not None and not file.is_there:
                raise AllocationRefusedError(
                    f"device {device_id!r} of {self.resource_name} cannot be used: {file.path} has gone"
                )
            is_known = file is not None
        else:
            is_known = name.isdecimal() and int(name) < self._description.count
        if not (is_known and is_number):
            raise AllocationRefusedError(f"{self.resource_name} has no device {device_id!r}")
        return name


def _name(path: str) -> str:
    """What a file's device is called: its path, without the folder of device files."""
    return path.removeprefix("/dev/")
