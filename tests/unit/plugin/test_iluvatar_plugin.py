"""Fed in: fake Iluvatar chips, the kubelet's calls; observed: lists and answers of the plugin."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakegpu.vendors.iluvatar import ECC_ERROR, IluvatarChip, set_health, write_iluvatar
from plugin.command.plugin_command import Quirks
from plugin.errors import FatalError
from plugin.framework import AllocationRefusedError, DeviceID, DeviceList, Health
from plugin.iluvatar import device_plugin
from plugin.iluvatar.config import IluvatarConfig
from plugin.iluvatar.device_plugin import Board, IluvatarPlugin, boards_of, device_list, pair_scores
from plugin.iluvatar.ixml import Chip, Ixml
from simkubelet.apis import deviceplugin as api
from tests.support.patience import LIMIT_S


class _Node:
    """A node with chips."""

    def __init__(self, folder: Path, count: int, chips_per_board: int = 1) -> None:
        self.folder = folder
        self.chips = write_iluvatar(folder, count, chips_per_board)

    def plugin(self, config: IluvatarConfig | None = None, quirks: Quirks = Quirks.ARTICLE) -> IluvatarPlugin:
        ixml, control = Ixml(self.folder / "sys"), self.folder / "dev/itrctl"
        return IluvatarPlugin(ixml, config or IluvatarConfig(), control, quirks)

    def pci_folder(self, chip: IluvatarChip) -> Path:
        return self.folder / "sys/bus/pci/devices" / chip.address


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chips are looked at all the time."""
    monkeypatch.setattr(device_plugin, "_LOOK_S", 0.01)


async def _next(lists: AsyncGenerator[DeviceList, None]) -> DeviceList:
    async with asyncio.timeout(LIMIT_S):
        return await anext(lists)


def _healthy(devices: DeviceList) -> list[str]:
    return [device.device_id for device in devices if device.health is Health.HEALTHY]


def _ids(*names: str) -> list[DeviceID]:
    return [DeviceID(name) for name in names]


async def _first(plugin: IluvatarPlugin) -> DeviceList:
    async with aclosing(plugin.devices()) as lists:
        return await _next(lists)


async def test_a_chip_is_a_device_on_its_numa_node(tmp_path: Path) -> None:
    node = _Node(tmp_path, 4)

    first = await _first(node.plugin())

    assert [device.device_id for device in first] == [chip.uuid for chip in node.chips]
    assert [device.numa_nodes for device in first] == [(0,), (0,), (1,), (1,)]


async def test_a_board_of_two_chips_is_one_device(tmp_path: Path) -> None:
    node = _Node(tmp_path, 4, chips_per_board=2)

    assert _healthy(await _first(node.plugin())) == [node.chips[0].uuid, node.chips[2].uuid]
    split = node.plugin(IluvatarConfig(splitboard=True))
    assert _healthy(await _first(split)) == [chip.uuid for chip in node.chips]


async def test_board_that_lacks_its_second_chip_is_unhealthy(tmp_path: Path) -> None:
    node = _Node(tmp_path, 3, chips_per_board=2)

    first = await _first(node.plugin())

    assert [(device.device_id, device.health) for device in first] == [
        (node.chips[0].uuid, Health.HEALTHY),
        (node.chips[2].uuid, Health.UNHEALTHY),
    ]


async def test_replicas_stand_for_a_device(tmp_path: Path) -> None:
    node = _Node(tmp_path, 1)

    first = await _first(node.plugin(IluvatarConfig(replicas=3)))

    assert [device.device_id for device in first] == [f"{node.chips[0].uuid}::{number}" for number in range(3)]


async def test_chip_without_a_numa_node_has_no_topology(tmp_path: Path) -> None:
    node = _Node(tmp_path, 1)
    (node.pci_folder(node.chips[0]) / "numa_node").write_text("-1\n")

    assert [device.numa_nodes for device in await _first(node.plugin())] == [()]


async def test_chip_without_a_minor_number_goes_by_100(tmp_path: Path) -> None:
    node = _Node(tmp_path, 1)
    (node.pci_folder(node.chips[0]) / "ixml/minor").unlink()

    assert [chip.minor for chip in Ixml(tmp_path / "sys").chips()] == [100]


def test_machine_without_the_library(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match=r"^Failed to init ixml\.$"):
        Ixml(tmp_path)


@pytest.mark.usefixtures("soon")
async def test_all_replicas_of_a_board_become_unhealthy_and_healthy_together(tmp_path: Path) -> None:
    node = _Node(tmp_path, 4, chips_per_board=2)
    plugin = node.plugin(IluvatarConfig(replicas=2))
    ill, well = node.chips[0].uuid, node.chips[2].uuid

    async with aclosing(plugin.devices()) as lists:
        await _next(lists)
        set_health(tmp_path, node.chips[1].uuid, ECC_ERROR)
        assert _healthy(await _next(lists)) == [f"{well}::0", f"{well}::1"]
        set_health(tmp_path, node.chips[1].uuid, 0)
        assert _healthy(await _next(lists)) == [f"{ill}::0", f"{ill}::1", f"{well}::0", f"{well}::1"]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("text", ["", "broken\n"])
async def test_chip_that_does_not_answer_is_unhealthy(text: str, tmp_path: Path) -> None:
    node = _Node(tmp_path, 2)

    async with aclosing(node.plugin().devices()) as lists:
        await _next(lists)
        (node.pci_folder(node.chips[0]) / "ixml/health").write_text(text)
        assert _healthy(await _next(lists)) == [node.chips[1].uuid]


async def test_unknown_bits_are_no_error(tmp_path: Path) -> None:
    node = _Node(tmp_path, 1)
    set_health(tmp_path, node.chips[0].uuid, 0x80)

    assert len(_healthy(await _first(node.plugin()))) == 1


@pytest.mark.usefixtures("soon")
async def test_chip_that_goes_is_unhealthy_and_then_no_device(tmp_path: Path) -> None:
    node = _Node(tmp_path, 2)
    plugin = node.plugin()

    async with aclosing(plugin.devices()) as lists:
        await _next(lists)
        shutil.rmtree(node.pci_folder(node.chips[1]))
        gone = await _next(lists)
        assert [device.health for device in gone] == [Health.HEALTHY, Health.UNHEALTHY]
        assert [device.device_id for device in await _next(lists)] == [node.chips[0].uuid]

    with pytest.raises(AllocationRefusedError):
        plugin.allocate(_ids(node.chips[1].uuid))


def _nodes(answer: api.ContainerAllocateResponse) -> dict[str, str]:
    assert {spec.permissions for spec in answer.devices} == {"rw"}
    return {spec.container_path: spec.host_path for spec in answer.devices}


_CONTROL = {"/dev/itrctl": "/dev/itrctl"}


@pytest.mark.parametrize(
    ("quirks", "numbers"),
    [(Quirks.ARTICLE, (0, 1, 2, 3)), (Quirks.ORIGINAL, (6, 7, 2, 3))],
    ids=["article", "original"],
)
def test_device_files_count_from_zero_in_the_order_of_the_request(
    quirks: Quirks, numbers: Sequence[int], tmp_path: Path
) -> None:
    node = _Node(tmp_path, 8, chips_per_board=2)
    chips = [node.chips[number] for number in (6, 7, 2, 3)]

    answer = node.plugin(quirks=quirks).allocate(_ids(chips[0].uuid, chips[2].uuid))

    assert (
        _nodes(answer)
        == {f"/dev/iluvatar{number}": f"/dev/iluvatar{chip.minor}" for number, chip in zip(numbers, chips, strict=True)}
        | _CONTROL
    )
    assert answer.envs["IX_VISIBLE_DEVICES"] == ",".join(chip.uuid for chip in chips)
    assert answer.envs["IX_REPLICA_DEVICES"] == f"{chips[0].uuid},{chips[2].uuid}"


@pytest.mark.parametrize("quirks", Quirks)
def test_container_with_the_whole_node_sees_boards_only(quirks: Quirks, tmp_path: Path) -> None:
    node = _Node(tmp_path, 4, chips_per_board=2)
    for chip in node.chips:
        (node.pci_folder(chip) / "ixml/minor").write_text(f"{chip.minor + 10}\n")
    boards = _ids(node.chips[2].uuid, node.chips[0].uuid)

    answer = node.plugin(quirks=quirks).allocate(boards)

    assert _nodes(answer) == {f"/dev/iluvatar{number}": f"/dev/iluvatar{number + 10}" for number in range(4)} | _CONTROL
    assert answer.envs["IX_VISIBLE_DEVICES"] == ",".join(boards)


def test_replicas_of_one_chip_give_it_once(tmp_path: Path) -> None:
    node = _Node(tmp_path, 2)
    first, second = (f"{node.chips[1].uuid}::{number}" for number in range(2))

    answer = node.plugin(IluvatarConfig(replicas=2)).allocate(_ids(second, first))

    assert _nodes(answer) == {"/dev/iluvatar0": "/dev/iluvatar1"} | _CONTROL
    assert answer.envs["IX_VISIBLE_DEVICES"] == node.chips[1].uuid
    assert answer.envs["IX_REPLICA_DEVICES"] == f"{second},{first}"


def test_control_file_is_given_where_it_is(tmp_path: Path) -> None:
    node = _Node(tmp_path, 2)
    (tmp_path / "dev/itrctl").unlink()

    assert list(_nodes(node.plugin().allocate(_ids(node.chips[0].uuid)))) == ["/dev/iluvatar0"]


@pytest.mark.parametrize("replicas", [0, 2])
@pytest.mark.parametrize("unknown", ["nobody", "nobody::0", "{}::2"])
def test_unknown_device_is_refused(replicas: int, unknown: str, tmp_path: Path) -> None:
    node = _Node(tmp_path, 2)
    name = unknown.format(node.chips[0].uuid)

    refusal = f"Invalid allocation request for 'iluvatar.com/gpu': unknown device: {name}"
    with pytest.raises(AllocationRefusedError, match=f"^{re.escape(refusal)}$"):
        node.plugin(IluvatarConfig(replicas=replicas)).allocate(_ids(name))


def test_boards_of_one_numa_node_are_preferred(tmp_path: Path) -> None:
    node = _Node(tmp_path, 8)
    uuids = _ids(*(chip.uuid for chip in node.chips))

    chosen = node.plugin().preferred([uuids[0], *uuids[5:], uuids[1]], [uuids[6]], 2)

    assert uuids[6] in chosen
    assert set(chosen) < set(uuids[4:])


def test_split_boards_stay_together(tmp_path: Path) -> None:
    node = _Node(tmp_path, 4, chips_per_board=2)
    uuids = _ids(*(chip.uuid for chip in node.chips))

    assert node.plugin(IluvatarConfig(splitboard=True)).preferred([uuids[0], uuids[2], uuids[3]], [], 2) == uuids[2:]


def test_replicas_are_spread_over_chips(tmp_path: Path) -> None:
    node = _Node(tmp_path, 2)
    first, second = (_ids(f"{chip.uuid}::0", f"{chip.uuid}::1") for chip in node.chips)
    plugin = node.plugin(IluvatarConfig(replicas=2))

    assert plugin.preferred([*first, *second], [], 2) == [first[0], second[0]]
    assert plugin.preferred([*first, second[1]], [first[0]], 2) == [first[1], first[0]]


@pytest.mark.parametrize(("required", "kind"), [([], "available"), (["nobody"], "required")])
def test_preference_among_unknown_boards_is_refused(required: list[str], kind: str, tmp_path: Path) -> None:
    node = _Node(tmp_path, 2)
    available = ["nobody"] if not required else [chip.uuid for chip in node.chips]

    refusal = f"unable to retrieve list of {kind} devices: no device with uuid: nobody"
    with pytest.raises(AllocationRefusedError, match=f"^{refusal}$"):
        node.plugin().preferred(_ids(*available), _ids(*required), 1)


def test_too_few_replicas_are_refused(tmp_path: Path) -> None:
    node = _Node(tmp_path, 1)

    with pytest.raises(AllocationRefusedError):
        node.plugin(IluvatarConfig(replicas=2)).preferred([], [], 1)


_chips = st.lists(
    st.builds(
        Chip,
        uuid=st.integers(0, 99).map("GPU-{}".format),
        minor=st.integers(0, 99),
        numa_node=st.sampled_from([None, 0, 1]),
        board=st.sampled_from([None, 0, 1, 2]),
        position=st.sampled_from([None, 0, 1]),
        address=st.just("0100:01:00.0"),
    ),
    max_size=6,
    unique_by=lambda chip: chip.uuid,
)


@given(_chips, st.booleans(), st.integers(0, 3))
@settings(deadline=None)
def test_whatever_the_chips_each_is_in_one_board_at_most(chips: list[Chip], splitboard: bool, replicas: int) -> None:
    boards = boards_of(chips, splitboard=splitboard, replicas=replicas)

    if splitboard:
        assert [board.chips for board in boards.values()] == [(chip,) for chip in chips]
    assert all(uuid == board.uuid == board.chips[0].uuid for uuid, board in boards.items())
    ids = [device.device_id for device in device_list(boards, chips)]
    assert len(ids) == len(set(ids)) == len(boards) * max(replicas, 1)
    assert all(device.health is Health.UNHEALTHY for device in device_list(boards, chips))
    scores = pair_scores(list(boards.values()))
    assert all(scores[a][b] == scores[b][a] for a in range(len(scores)) for b in range(len(scores)))


def test_board_is_healthy_while_none_of_its_chips_is_unhealthy() -> None:
    chips = tuple(Chip(f"GPU-{number}", number, 0, 0, number, "0100:01:00.0") for number in range(2))
    board = Board(chips, is_pair=True, replicas=0)

    assert board.health(()) is Health.HEALTHY
    assert board.health(chips[1:]) is Health.UNHEALTHY
