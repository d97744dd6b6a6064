"""The Iluvatar resource: boards and chips, their health, their device files under other numbers.

Source: Deep-Spark/ix-device-plugin, pkg/dpm/plugin.go and device.go (v4.4.0), whose error texts these are. The numbers
of device files in a container are those of v1.0.0, which the article about it shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

from simkubelet.apis import deviceplugin as api

from ..command.plugin_command import Quirks
from ..framework import (
    AllocationRefusedError,
    DeviceID,
    DeviceList,
    DevicePlugin,
    PluginOptions,
    ResourceName,
)
from ..preference.aligned import aligned_set
from ..preference.distributed import NotEnoughDevicesError, distributed_devices, replicated_id
from .boards import Board, boards_of, device_list, pair_scores
from .config import IluvatarConfig
from .ixml import Chip, Ixml

__all__ = ["IluvatarPlugin"]

_log = logging.getLogger(__name__)

_LOOK_S: Final = 5.0
"""Between two looks at the chips; also how long those that came or went are waited for to settle."""
_CONTROL: Final = Path("/dev/itrctl")


class IluvatarPlugin(DevicePlugin):
    """All boards of a node, or all their chips.

    Args:
        ixml: Tells of the chips.
        config: What the plugin does.
        control: Where the node's control file is seen, if it is there.
        quirks: Whose numbers the device files have in a container.
    """

    socket_name = "iluvatar-gpu.sock"
    options = PluginOptions(preferred_allocation_available=True, in_registration=True)

    def __init__(self, ixml: Ixml, config: IluvatarConfig, control: Path, quirks: Quirks) -> None:
        self.resource_name = ResourceName(config.resource_name)
        self._ixml = ixml
        self._config = config
        self._control = control
        self._quirks = quirks
        self._chips: tuple[Chip, ...] = ()
        self._boards: dict[str, Board] = {}
        self._build(ixml.chips())

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        """The devices; every five seconds their health, and five seconds after chips have come or gone the new ones."""
        known = self._list()
        yield known
        seen = self._chips
        while True:
            await asyncio.sleep(_LOOK_S)
            last, seen = seen, self._ixml.chips()
            if last == seen != self._chips:
                self._build(seen)
            if (current := self._list()) != known:
                known = current
                yield known

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """Give the chips' device files and name the chips.

        Raises:
            AllocationRefusedError: a device is not known.
        """
        held = [self._board_of(device_id) for device_id in device_ids]
        if self._config.replicas == 0 and len(device_ids) == len(self._boards):
            uuids: Sequence[str] = device_ids
            minors = sorted(chip.minor for board in self._boards.values() for chip in board.chips)
            numbers: Sequence[int] = range(len(minors))
        else:
            chips = [chip for board in dict.fromkeys(held) for chip in board.chips]
            uuids = [chip.uuid for chip in chips]
            minors = [chip.minor for chip in chips]
            numbers = minors if self._quirks is Quirks.ORIGINAL else range(len(minors))
        nodes = [(f"/dev/iluvatar{minor}", f"/dev/iluvatar{n}") for minor, n in zip(minors, numbers, strict=True)]
        if self._control.exists():
            nodes.append((str(_CONTROL), str(_CONTROL)))
        return api.ContainerAllocateResponse(
            envs={"IX_VISIBLE_DEVICES": ",".join(uuids), "IX_REPLICA_DEVICES": ",".join(device_ids)},
            devices=[api.DeviceSpec(host_path=host, container_path=name, permissions="rw") for host, name in nodes],
        )

    def preferred(self, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int) -> Sequence[DeviceID]:
        """The replicas of the boards with the fewest in use, or else the boards that are nearest to each other.

        Raises:
            AllocationRefusedError: a device is not known, or there are too few.
        """
        if self._config.replicas > 0:
            all_ids = [device_id for board in self._boards.values() for device_id in board.device_ids]
            try:
                chosen = distributed_devices(all_ids, available, required, size)
            except NotEnoughDevicesError as error:
                raise AllocationRefusedError(str(error)) from error
            return [*chosen[len(required) :], *required]
        boards = list(self._boards.values())
        positions = {board.uuid: number for number, board in enumerate(boards)}
        free = _positions(available, positions, "available")
        needed = _positions(required, positions, "required")
        return [DeviceID(boards[number].uuid) for number in aligned_set(free, needed, size, pair_scores(boards))]

    def _build(self, chips: tuple[Chip, ...]) -> None:
        self._chips = chips
        self._boards = boards_of(chips, splitboard=self._config.splitboard, replicas=self._config.replicas)
        _log.info("%d chips make %d boards", len(chips), len(self._boards))

    def _list(self) -> DeviceList:
        unhealthy = frozenset(chip for chip in self._chips if not self._ixml.is_healthy(chip))
        return device_list(self._boards, unhealthy)

    def _board_of(self, device_id: DeviceID) -> Board:
        board = self._boards.get(replicated_id(device_id))
        if board is None or device_id not in board.device_ids:
            raise AllocationRefusedError(
                f"Invalid allocation request for '{self.resource_name}': unknown device: {device_id}"
            )
        return board


def _positions(device_ids: Sequence[DeviceID], positions: dict[str, int], kind: str) -> list[int]:
    unknown = next((device_id for device_id in device_ids if device_id not in positions), None)
    if unknown is not None:
        raise AllocationRefusedError(f"unable to retrieve list of {kind} devices: no device with uuid: {unknown}")
    return [positions[device_id] for device_id in device_ids]
