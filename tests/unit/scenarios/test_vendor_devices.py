"""Fed in: what a node has of AMD GPUs and Iluvatar chips; observed: files, the exporter's socket, health."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fakegpu.errors import InputError
from fakegpu.vendors.amd.machine import health
from scenarios.backends.world.hardware import VendorDevices
from scenarios.story.specs import AmdSpec, IluvatarSpec, NodeSpec, vendor_specs


@pytest.fixture
def root() -> Iterator[Path]:
    """Where a node's file system is seen; short, as a socket lies deep in it."""
    with TemporaryDirectory(prefix="sk-") as folder:
        yield Path(folder)


def _devices(root: Path, amd: AmdSpec | None = None, iluvatar: IluvatarSpec | None = None) -> VendorDevices:
    return VendorDevices(root / "machine", *vendor_specs(NodeSpec(name="node-1", amd=amd, iluvatar=iluvatar)))


def test_node_with_devices_of_both_vendors(root: Path) -> None:
    devices = _devices(root, AmdSpec(profile="mi210", count=2), IluvatarSpec(count=2))

    assert devices.ids[:2] == ("0000:63:00.0", "0000:43:00.0")
    assert len(devices.ids) == 4
    dev = root / "machine/dev"
    assert {path.name for path in dev.iterdir()} == {"kfd", "dri", "iluvatar0", "iluvatar1", "itrctl"}


def test_server_is_full_of_amd_gpus_where_no_number_is_given(root: Path) -> None:
    assert len(_devices(root, AmdSpec(profile="mi210")).ids) == 8


def test_partitions_are_devices(root: Path) -> None:
    spec = AmdSpec(profile="mi300x", count=1, compute="qpx", memory="nps4")

    assert _devices(root, spec).ids == ("0000:05:00.0", "amdgpu_xcp_0", "amdgpu_xcp_1", "amdgpu_xcp_2")


def test_health_of_each_vendor_is_told_apart(root: Path) -> None:
    devices = _devices(root, AmdSpec(profile="mi210", count=1), IluvatarSpec(count=1))
    amd, chip = devices.ids
    (told,) = (root / "machine/sys/bus/pci/devices").glob("*/ixml/health")

    devices.report_health(chip, healthy=False)
    assert (told.read_text(), health(root / "machine")) == ("0x10\n", {amd: "healthy"})

    devices.report_health(amd, healthy=False)
    devices.report_health(chip, healthy=True)
    assert (told.read_text(), health(root / "machine")) == ("0x0\n", {amd: "unhealthy"})


@pytest.mark.parametrize("is_there", [True, False])
def test_exporter_listens_where_there_is_one(root: Path, is_there: bool) -> None:
    devices = _devices(root, AmdSpec(profile="mi210", count=1, exporter=is_there))

    devices.serve(root)
    links = list(root.glob("var/lib/amd-metrics-exporter/*.socket"))
    listening = [link.resolve().is_socket() for link in links]
    devices.close()

    assert listening == [True] * is_there
    assert not any(link.exists() for link in links)


def test_what_the_model_does_not_have(root: Path) -> None:
    with pytest.raises(InputError, match="cannot be partitioned"):
        _devices(root, AmdSpec(profile="mi210", compute="cpx"))
