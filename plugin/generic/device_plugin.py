"""The resource of a `Description`: files as devices, or devices that are nothing but a number.

Files are looked for again whenever something changes in a folder on the way to them.
"""

from __future__ import annotations

import asyncio
import glob
import logging
import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.inotify import Mask, PathWatch

from ..errors import HostError
from ..framework import AllocationRefusedError, Device, DeviceID, DeviceList, DevicePlugin, Health, ResourceName
from .description import Description, DeviceGlob

__all__ = ["GenericPlugin", "GlobWatch"]

_log = logging.getLogger(__name__)

_REPLICA: Final = "::"
_NUMBER: Final = re.compile("[0-9]{1,9}")


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
        is_number = _NUMBER.fullmatch(replica) is not None and int(replica) < self._description.replicas
        if self._description.globs:
            file = self._files.get(name)
            if file is not None and not file.is_there:
                raise AllocationRefusedError(
                    f"device {device_id!r} of {self.resource_name} cannot be used: {file.path} has gone"
                )
            is_known = file is not None
        else:
            is_known = _NUMBER.fullmatch(name) is not None and int(name) < self._description.count
        if not (is_known and is_number):
            raise AllocationRefusedError(f"{self.resource_name} has no device {device_id!r}")
        return name


def _name(path: str) -> str:
    """What a file's device is called: its path, without the folder of device files."""
    return path.removeprefix("/dev/")


_MASK: Final = (
    Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR
)


class GlobWatch:
    """The files of some globs below a root, from the construction on.

    Args:
        root: Where the node's root file system is seen.
        globs: Absolute paths of the node, with ``*``, ``?`` and ``[...]`` in any part.
    """

    def __init__(self, root: Path, globs: Sequence[str]) -> None:
        self._root = str(root).rstrip("/")
        self._globs = globs
        self._watch = PathWatch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.close()

    async def found(self) -> AsyncGenerator[list[list[str]], None]:
        """For each glob the files that there are, as paths of the node, sorted; again after each change of them.

        Raises:
            HostError: a folder cannot be watched.
        """
        self._watch_folders()
        known = self._found()
        yield known
        async for _ in self._watch:
            self._watch_folders()
            if (current := self._found()) != known:
                known = current
                yield known

    def _found(self) -> list[list[str]]:
        return [sorted(self._matches(pattern)) for pattern in self._globs]

    def _matches(self, pattern: str) -> list[str]:
        # Path.glob would find hidden files too.
        found = glob.glob(glob.escape(self._root) + pattern)  # noqa: PTH207
        return [path[len(self._root) :] for path in found]

    def _watch_folders(self) -> None:
        """Watch each folder in which a next part of a path may appear; what is watched already stays so."""
        for pattern in self._globs:
            for folder in PurePosixPath(pattern).parents:
                for path in self._matches(str(folder)):
                    try:
                        self._watch.add(Path(f"{self._root}{path}" or "/"), _MASK)
                    except (FileNotFoundError, NotADirectoryError):
                        # Gone or replaced since it was looked for: an event of the folder above follows.
                        continue
                    except OSError as error:
                        raise _unwatchable(error) from error


def _unwatchable(error: OSError) -> HostError:
    return HostError(
        f"cannot watch the folders of the device files: {os.strerror(error.errno or 0)}; "
        "check their permissions and the limits of inotify"
    )
