"""The Iluvatar resource: boards and chips, their health, their device files under other numbers.

Source: Deep-Spark/ix-device-plugin, pkg/dpm/plugin.go and device.go (v4.4.0), whose error texts these are. The numbers
of device files in a container are those of v1.0.0, which the article about it shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet.apis import deviceplugin as api

from ..command.plugin_command import Quirks
from ..framework import (
    AllocationRefusedError,
    Device,
    DeviceID,
    DeviceList,
    DevicePlugin,
    Health,
    PluginOptions,
    ResourceName,
)
from ..preference import NotEnoughDevicesError, aligned_set, distributed_devices, replica_id, replicated_id
from .config import IluvatarConfig
from .ixml import Chip, Ixml

__all__ = ["Board", "IluvatarPlugin", "boards_of", "device_list", "pair_scores"]

_log = logging.getLogger(__name__)

_LOOK_S: Final = 5.0
"""Between two looks at the chips; also how long those that came or went are waited for to settle."""
_CONTROL: Final = Path("/dev/itrctl")


class IluvatarPlugin(DevicePlugin):
    """All boards of a node, or all their chips.

    Args:
        ixml: Reports the chips.
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


_CHIPS_OF_A_PAIR: Final = 2
_SAME_BOARD: Final = 60
_SAME_CPU: Final = 20
_CROSS_CPU: Final = 10


@dataclass(frozen=True, slots=True)
class Board:
    """What a container is given as one: a chip, or the chips of one board; the first of them names it.

    Attributes:
        chips: In the order of their positions.
        is_pair: Whether there must be two.
        replicas: How many devices stand for it; 0: the one itself.
    """

    chips: tuple[Chip, ...]
    is_pair: bool
    replicas: int

    @property
    def uuid(self) -> str:
        return self.chips[0].uuid

    @property
    def device_ids(self) -> tuple[DeviceID, ...]:
        """Of the devices that stand for it."""
        return tuple(replica_id(self.uuid, number) for number in range(self.replicas)) or (DeviceID(self.uuid),)

    def health(self, unhealthy: Collection[Chip]) -> Health:
        """The health of all its devices, with these chips unhealthy."""
        is_whole = not self.is_pair or len(self.chips) == _CHIPS_OF_A_PAIR
        return Health.HEALTHY if is_whole and not set(self.chips) & set(unhealthy) else Health.UNHEALTHY


def boards_of(chips: Iterable[Chip], *, splitboard: bool, replicas: int) -> dict[str, Board]:
    """UUID of its first chip -> board; a chip whose board has lost its first chip is left out.

    Args:
        chips: All of the node, in the order of their indices.
        splitboard: Whether each chip is a board of its own.
        replicas: How many devices stand for each.
    """
    chips = tuple(chips)
    boards = {}
    for chip in chips:
        if splitboard or chip.position is None:
            boards[chip.uuid] = Board((chip,), is_pair=False, replicas=replicas)
        elif chip.position == 0:
            others = (one for one in chips if one.position and one.board == chip.board is not None)
            boards[chip.uuid] = Board((chip, *others), is_pair=True, replicas=replicas)
    return boards


def device_list(boards: Mapping[str, Board], unhealthy: Collection[Chip]) -> DeviceList:
    """The devices of some boards, each where its board's first chip is."""
    return tuple(
        Device(device_id, board.health(unhealthy), () if (node := board.chips[0].numa_node) is None else (node,))
        for board in boards.values()
        for device_id in board.device_ids
    )


def pair_scores(boards: Sequence[Board]) -> list[list[int]]:
    """How near boards are to each other, as scores of each pair.

    Source: pkg/gpuallocator/links.go and besteffort_policy.go (v4.4.0).
    """
    return [[0 if one is other else _score(one.chips[0], other.chips[0]) for other in boards] for one in boards]


def _score(one: Chip, other: Chip) -> int:
    if one.board is not None and one.board == other.board:
        return _SAME_BOARD
    return _SAME_CPU if one.numa_node is not None and one.numa_node == other.numa_node else _CROSS_CPU
