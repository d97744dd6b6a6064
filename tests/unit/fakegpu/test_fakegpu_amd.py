"""AMD GPUs as files. What is expected of them are the facts of the test topologies of AMD's device plugin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from fakegpu import HostError, InputError, Machine
from fakegpu.cli.main import main
from fakegpu.vendors.amd.exporter import exporter
from fakegpu.vendors.amd.machine import AmdDevice, write_amd
from fakegpu.vendors.amd.model import amd_profile_names, load_amd_profile
from tests.support.patience import LIMIT_S

HYPERTRANSPORT, PCIE, XGMI = 1, 2, 11
Properties = dict[str, int]


def make(root: Path, name: str, count: int = 8, compute: str = "spx", memory: str = "nps1") -> list[AmdDevice]:
    return list(write_amd(root, load_amd_profile(name), count, compute=compute, memory=memory))


def properties(path: Path) -> Properties:
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}


def nodes(root: Path) -> dict[int, Properties]:
    found = (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    return {int(path.parent.name): properties(path) for path in sorted(found, key=lambda path: int(path.parent.name))}


def links(root: Path, kind: str) -> Iterator[Properties]:
    for path in (root / "sys/class/kfd/kfd/topology/nodes").glob(f"*/{kind}/*/properties"):
        yield properties(path)


def seen_by_the_plugin(root: Path) -> dict[str, dict[str, object]]:
    """Devices as AMD's plugin finds them: PCI functions of the driver, then partitions that KFD knows."""
    system = root / "sys"
    renders = {
        node["drm_render_minor"]: f"{node['domain']:04x}:{node['location_id'] >> 8 & 0xFF:02x}:"
        f"{node['location_id'] >> 3 & 0x1F:02x}"
        for node in nodes(root).values()
        if node["drm_render_minor"] > 0
    }
    devices: dict[str, dict[str, object]] = {}
    for folder in (system / "module/amdgpu/drivers/pci:amdgpu").glob("[0-9a-f][0-9a-f][0-9a-f][0-9a-f]:*"):
        modes = [folder / f"current_{kind}_partition" for kind in ("compute", "memory")]
        devices[folder.name] = {
            "numa": int((folder / "numa_node").read_text()),
            "render": render_of(folder),
            "partition": "_".join(mode.read_text().strip().lower() for mode in modes if mode.exists()),
        }
    for folder in (system / "devices/platform").glob("amdgpu_xcp_*"):
        if (render := render_of(folder)) in renders:
            parent = devices[f"{renders[render]}.0"]
            devices[folder.name] = {"numa": parent["numa"], "render": render, "partition": parent["partition"]}
    return devices


def render_of(folder: Path) -> int:
    (name,) = (path.name for path in (folder / "drm").glob("renderD*"))
    return int(name.removeprefix("renderD"))


def test_mi210_has_two_hives_of_four(tmp_path: Path) -> None:
    make(tmp_path, "mi210")

    gpus = {number: node for number, node in nodes(tmp_path).items() if node["simd_count"]}

    assert [node["location_id"] for node in gpus.values()] == [25344, 17152, 768, 9728, 58112, 49920, 33536, 41728]
    assert [node["drm_render_minor"] for node in gpus.values()] == list(range(128, 136))
    assert {(node["device_id"], node["gfx_target_version"], node["simd_count"]) for node in gpus.values()} == {
        (29711, 90010, 416)
    }
    assert len({node["hive_id"] for node in list(gpus.values())[:4]}) == 1
    assert len({node["hive_id"] for node in gpus.values()}) == 2


def test_mi210_links(tmp_path: Path) -> None:
    make(tmp_path, "mi210")

    direct = Counter((link["type"], link["weight"]) for link in links(tmp_path, "io_links"))
    peers = Counter((link["type"], link["weight"]) for link in links(tmp_path, "p2p_links"))

    assert direct == {(HYPERTRANSPORT, 32): 2, (PCIE, 20): 16, (XGMI, 15): 24}
    assert peers == {(PCIE, 52): 16, (PCIE, 72): 32}


def test_mi300x_in_cpx_has_eight_partitions_per_gpu(tmp_path: Path) -> None:
    devices = make(tmp_path, "mi300x", compute="cpx")

    gpus = {number: node for number, node in nodes(tmp_path).items() if node["simd_count"]}

    assert len(devices) == len(gpus) == 64
    assert [gpus[number]["location_id"] for number in (2, 3, 9, 10, 18, 34)] == [1280, 1281, 1287, 9984, 18176, 34048]
    assert [gpus[number]["drm_render_minor"] for number in (2, 9, 10, 65)] == [128, 135, 136, 191]
    assert {node["simd_count"] for node in gpus.values()} == {152}
    assert Counter((link["type"], link["weight"]) for link in links(tmp_path, "io_links")) == {
        (HYPERTRANSPORT, 32): 2,
        (PCIE, 20): 128,
        (XGMI, 13): 64 * 7,
        (XGMI, 41): 64 * 56,
    }


def test_mi308x_in_qpx_keeps_places_for_eight_partitions(tmp_path: Path) -> None:
    make(tmp_path, "mi308x", compute="qpx")

    gpus = [node for node in nodes(tmp_path).values() if node["simd_count"]]

    assert [node["drm_render_minor"] for node in gpus[:6]] == [128, 129, 130, 131, 136, 137]
    assert [node["location_id"] for node in gpus[::4]] == [2560, 32768, 41984, 51200, 2816, 33024, 42240, 51456]
    bank = tmp_path / "sys/class/kfd/kfd/topology/nodes/2/mem_banks/0/properties"
    assert properties(bank)["size_in_bytes"] == 51539607552


@pytest.mark.parametrize(
    ("name", "count", "compute", "memory", "partition"),
    [
        ("mi210", 8, "spx", "nps1", ""),
        ("mi250", 4, "spx", "nps1", ""),
        ("mi300x", 8, "spx", "nps1", "spx_nps1"),
        ("mi300x", 2, "cpx", "nps4", "cpx_nps4"),
        ("mi308x", 3, "dpx", "nps2", "dpx_nps2"),
    ],
)
def test_the_plugin_finds_every_device_once(
    name: str, count: int, compute: str, memory: str, partition: str, tmp_path: Path
) -> None:
    devices = make(tmp_path, name, count, compute, memory)

    found = seen_by_the_plugin(tmp_path)

    assert found == {
        device.name: {"numa": device.slot.numa_node, "render": device.render, "partition": partition}
        for device in devices
    }
    for device in devices:
        assert (tmp_path / "dev/dri" / f"card{device.card}").exists()
        assert (tmp_path / "dev/dri" / f"renderD{device.render}").exists()
        vendor = tmp_path / "sys/class/drm" / f"card{device.card}" / "device"
        assert device.part or (vendor / "vendor").read_text() == "0x1002\n"


def test_links_stay_inside_when_the_folder_moves(tmp_path: Path) -> None:
    make(tmp_path / "one", "mi300x", 2)
    before = seen_by_the_plugin(tmp_path / "one")

    (tmp_path / "one").rename(tmp_path / "other")

    assert seen_by_the_plugin(tmp_path / "other") == before


def test_another_partition_mode_replaces_what_was_there(tmp_path: Path) -> None:
    make(tmp_path / "node", "mi300x", 8, "cpx")
    make(tmp_path / "node", "mi210", 2)
    make(tmp_path / "fresh", "mi210", 2)

    def listing(root: Path) -> set[str]:
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() or path.is_symlink()}

    assert listing(tmp_path / "node") == listing(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("name", "count", "compute", "message"),
    [
        ("mi210", 9, "spx", "cannot make 9 GPUs: the server has 8 slots"),
        ("mi210", 0, "spx", "cannot make 0 GPUs"),
        ("mi210", 1, "cpx", "AMD Instinct MI210 cannot be partitioned"),
        ("mi300x", 1, "tpx", "no partition mode 'tpx'; it has spx, dpx, qpx, cpx"),
    ],
)
def test_what_cannot_be_is_refused(name: str, count: int, compute: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        make(tmp_path, name, count, compute)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", amd_profile_names())
def test_every_figure_names_the_document_it_comes_from(name: str) -> None:
    profile = load_amd_profile(name)

    used = set()
    for _, section in profile.sections():
        used |= {section.source} if isinstance(section.source, str) else set(section.source)
    assert used == set(profile.sources)


def test_address_of_another_device_is_refused(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", "h100-80gb", 2)

    with pytest.raises(InputError, match=r"0000:43:00\.0 is another device: choose another folder"):
        make(machine.directory, "mi210", 2)

    assert not (machine.dev / "kfd").exists()


def test_unknown_profile_names_those_there_are() -> None:
    with pytest.raises(InputError, match="no AMD profile 'mi100'; there are mi210, mi250, mi300x, mi308x"):
        load_amd_profile("mi100")


@pytest.fixture
def listed() -> Callable[[Path], dict[str, str]]:
    """Health by device, as a client with AMD's messages reads it."""
    file = descriptor_pb2.FileDescriptorProto(name="metricssvc.proto", package="metricssvc", syntax="proto3")
    state = file.message_type.add(name="GPUState")
    for name, number in (("ID", 1), ("UUID", 2), ("Health", 3), ("Device", 5)):
        state.field.add(name=name, number=number, label=1, type=9)
    reply = file.message_type.add(name="GPUStateResponse")
    reply.field.add(name="GPUState", number=1, label=3, type=11, type_name=".metricssvc.GPUState")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    response = message_factory.GetMessageClass(pool.FindMessageTypeByName("metricssvc.GPUStateResponse"))

    def ask(socket: Path) -> dict[str, str]:
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            answer = channel.unary_unary("/metricssvc.MetricsService/List")(b"", wait_for_ready=True, timeout=LIMIT_S)
        return {one.Device: one.Health for one in response.FromString(answer).GPUState}  # type: ignore[attr-defined]

    return ask


def test_exporter_tells_health_as_it_is(tmp_path: Path, listed: Callable[[Path], dict[str, str]]) -> None:
    devices = make(tmp_path, "mi300x", 2, "cpx")
    socket = tmp_path / "exporter.socket"

    with exporter(tmp_path, socket):
        assert listed(socket) == {device.name: "healthy" for device in devices}
        assert main(["amd", "fail", "amdgpu_xcp_3", "--dir", str(tmp_path)]) == 0
        assert Counter(listed(socket).values()) == {"healthy": 15, "unhealthy": 1}
        assert main(["amd", "heal", "amdgpu_xcp_3", "--dir", str(tmp_path)]) == 0
        assert listed(socket)["amdgpu_xcp_3"] == "healthy"

    assert not socket.exists()


def test_exporter_needs_gpus_and_a_place_for_its_socket(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no AMD GPUs in"), exporter(tmp_path, tmp_path / "socket"):
        pass
    make(tmp_path, "mi210", 1)
    with pytest.raises(HostError, match="cannot listen on"), exporter(tmp_path, tmp_path / "missing" / "socket"):
        pass


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--dir", str(tmp_path / "node")]

    assert main(["amd", "up", "--profile", "mi300x", "--compute", "dpx", *folder]) == 0
    assert capsys.readouterr().out == f"8 x AMD Instinct MI300X in 16 partitions in {tmp_path / 'node'}\n"
    assert main(["amd", "list", *folder]) == 0
    assert len(re.findall(r"^\S+ +healthy$", capsys.readouterr().out, re.MULTILINE)) == 16
    assert main(["amd", "fail", "0000:99:00.0", *folder]) == 2
    assert "no AMD device '0000:99:00.0'" in capsys.readouterr().err
