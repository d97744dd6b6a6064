"""Which devices the chips make; pure.

Source: Deep-Spark/ix-device-plugin, pkg/gpuallocator/deviceset.go (v4.4.0).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..framework.device import Device, DeviceID, DeviceList, Health
from ..preference.distributed import replica_id
from .ixml import Chip

__all__ = ["Board", "boards_of", "device_list", "pair_scores"]

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
