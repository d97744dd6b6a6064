"""CDI specifications and the answers that name what is in them, beside NVIDIA's own plugin.

Fed in: a node with device nodes, an installed driver and settings; observed: every file in ``/var/run/cdi``, byte for
byte, and the answers to Allocate. Device nodes are nodes of this host under other names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine, make_driver_root
from tests.support.nvidia_sides import NvidiaNode, SidePlugin

pytestmark = pytest.mark.nvidia_go

_NULL, _ZERO, _FULL, _RANDOM = (Path("/dev", name) for name in ("null", "zero", "full", "random"))
_CONTROL = {
    "/dev/nvidiactl": _NULL,
    "/dev/nvidia-uvm": _ZERO,
    "/dev/nvidia-uvm-tools": _FULL,
    "/dev/nvidia-modeset": _RANDOM,
}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine.create(tmp_path / "machine", "h100-80gb", 2, seed="cdi")
    yield made
    made.close()


@pytest.fixture
def driver(tmp_path: Path, machine: Machine) -> Path:
    folder = tmp_path / "driver"
    make_driver_root(machine, folder)
    return folder


def _installed(driver: Path, machine: Machine, *more: str) -> None:
    """Let the driver have more files: links have a `` -> `` in them, names may have the driver's version in them."""
    for text in more:
        name, _, target = text.replace("VERSION", machine.driver_version).partition(" -> ")
        place = driver / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if target:
            place.symlink_to(target)
        else:
            place.touch(0o755)


def _nodes(machine: Machine, *more: str) -> dict[str, Path]:
    return _CONTROL | {f"/dev/nvidia{gpu.minor}": _NULL for gpu in machine.gpus} | dict.fromkeys(more, _ZERO)


def _seen(plugin: SidePlugin, resource: str = "nvidia.com/gpu", count: int = 1) -> tuple[Mapping[str, str], Any]:
    """The files, and the answer for the first device."""
    plugin.registered(count)
    device = plugin.list_and_watch(resource).next()[0]["ID"]
    answer = plugin.allocate([device], resource=resource)
    assert isinstance(answer, dict)
    (container,) = answer["container_responses"]
    container["annotations"] = list(container.get("annotations", {}).values())
    return {path.name: path.read_text() for path in sorted(plugin.cdi.iterdir())}, container


def _compared(node: NvidiaNode, binary: str, *args: str, **settings: Any) -> Mapping[str, Any]:
    """What both wrote, as it was the same."""
    ours, theirs = (_seen(plugin, **settings) for plugin in node.both(binary, *args))
    ours_read, theirs_read = ({name: json.loads(text) for name, text in files.items()} for files, _ in (ours, theirs))
    assert ours_read == theirs_read
    assert ours == theirs
    return ours_read


@pytest.mark.parametrize("strategy", ["cdi-cri", "cdi-annotations", "cdi-cri,cdi-annotations,envvar,volume-mounts"])
def test_strategies(nvidia_plugin: str, machine: Machine, driver: Path, strategy: str) -> None:
    with NvidiaNode(machine, _nodes(machine) | {"/driver-root": driver}) as node:
        files = _compared(node, nvidia_plugin, f"--device-list-strategy={strategy}", "--pass-device-specs")

    (spec,) = files.values()
    assert [device["name"] for device in spec["devices"]] == sorted(gpu.uuid for gpu in machine.gpus)


def test_devices_by_index_and_another_prefix(nvidia_plugin: str, machine: Machine, driver: Path) -> None:
    args = ["--device-list-strategy=cdi-annotations,cdi-cri", "--device-id-strategy=index"]
    with NvidiaNode(machine, _nodes(machine) | {"/driver-root": driver}) as node:
        _compared(node, nvidia_plugin, *args, "--cdi-annotation-prefix=example.com/", "--nvidia-cdi-hook-path=/x/hook")


def test_driver_with_everything(nvidia_plugin: str, machine: Machine, driver: Path) -> None:
    libraries = "usr/lib/x86_64-linux-gnu"
    own = f"{libraries}/libnvidia-ml.so.{machine.driver_version}"
    (driver / f"{libraries}/libnvidia-nscq.so.{machine.driver_version}").write_bytes((driver / own).read_bytes())
    _installed(
        driver,
        machine,
        f"{libraries}/libnvidia-ml.so -> libnvidia-ml.so.1",
        *(f"{libraries}/{name}.so.VERSION" for name in ("libGLX_nvidia", "libnvidia-opticalflow", "libcudadebugger")),
        *(f"{libraries}/{name}.so.VERSION" for name in ("libnvidia-allocator", "libnvidia-vulkan-producer")),
        *(f"{libraries}/{name}" for name in ("libnvidia-egl-gbm.so.1.1.2", "libnvidia-egl-wayland.so.1.1.13")),
        f"{libraries}/vdpau/libvdpau_nvidia.so.VERSION",
        f"{libraries}/nvidia/xorg/libglxserver_nvidia.so.VERSION",
        f"{libraries}/libEGL.so -> libEGL.so.1.1.0",
        f"{libraries}/libEGL.so.1.1.0",
        "usr/lib/xorg/modules/drivers/nvidia_drv.so",
        "usr/bin/nvidia-persistenced",
        "usr/local/bin/nvidia-imex",
        "lib/firmware/nvidia/VERSION/gsp_ga10x.bin",
        "lib/firmware/nvidia/VERSION/gsp_tu10x.bin",
        "run/nvidia-persistenced/socket",
        "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
        "usr/share/nvidia/nvoptix.bin",
        "etc/vulkan/icd.d/nvidia_icd.json",
        "usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
        "usr/share/vulkan/icd.d/nvidia_icd.x86_64.json",
    )
    args = ["--device-list-strategy=cdi-cri", "--cdi-feature-flags=enable-explicit-driver-libraries"]
    with NvidiaNode(machine, _nodes(machine) | {"/driver-root": driver}) as node:
        (spec,) = _compared(node, nvidia_plugin, *args, "--cdi-feature-flags=enable-coherent-annotations").values()

    assert len(spec["containerEdits"]["mounts"]) > 20


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("--driver-root=/run/nvidia/driver",), id="driver root"),
        pytest.param(("--driver-root=/run/nvidia/driver", "--dev-root=/"), id="dev root"),
        pytest.param(("--driver-root-ctr-path=/opt/driver",), id="container driver root"),
    ],
)
@pytest.mark.parametrize("has_dev", [False, True])
def test_roots(nvidia_plugin: str, machine: Machine, driver: Path, args: tuple[str, ...], has_dev: bool) -> None:
    root = next((arg.partition("=")[2] for arg in args if arg.startswith("--driver-root-ctr-path")), "/driver-root")
    nodes = _nodes(machine)
    if has_dev:
        (driver / "dev").mkdir()
        for path in nodes:
            (driver / path.lstrip("/")).touch()
        nodes = {f"{root}{path}": place for path, place in nodes.items()}
    with NvidiaNode(machine, {root: driver} | nodes) as node:
        _compared(node, nvidia_plugin, "--device-list-strategy=cdi-cri,envvar", "--pass-device-specs", *args)


def test_modes_and_imex_channel(nvidia_plugin: str, machine: Machine, driver: Path) -> None:
    _installed(driver, machine, "etc/cufile.json", "run/udev/data/x")
    more = ["gdrdrv", "nvidia-fs0", "nvidia-fs1", "infiniband/uverbs0", "infiniband/rdma_cm"]
    nodes = _nodes(machine, *(f"/dev/{name}" for name in (*more, "nvidia-caps-imex-channels/channel0")))
    args = ["--device-list-strategy=cdi-cri,envvar,volume-mounts", "--pass-device-specs", "--imex-channel-ids=0"]
    with NvidiaNode(machine, nodes | {"/driver-root": driver}) as node:
        files = _compared(node, nvidia_plugin, *args)

    classes = ("gdrcopy", "gds", "gpu", "imex-channel", "mofed")
    assert [*files] == [f"k8s.device-plugin.nvidia.com-{name}.json" for name in classes]


@pytest.mark.parametrize("strategy", ["mixed", "none", "single"])
def test_mig_devices(nvidia_plugin: str, machine: Machine, driver: Path, strategy: str) -> None:
    count = 3 if strategy == "mixed" else 1
    for gpu in machine.gpus[: 1 if strategy == "mixed" else 2]:
        machine.mig(gpu.index).create("1g.10gb", *(["3g.40gb"] if strategy == "mixed" else []))
    caps = (f"/dev/nvidia-caps/nvidia-cap{number}" for number in range(300))
    with NvidiaNode(machine, _nodes(machine, *caps) | {"/driver-root": driver}) as node:
        _compared(
            node,
            nvidia_plugin,
            "--device-list-strategy=cdi-cri",
            f"--mig-strategy={strategy}",
            resource="nvidia.com/mig-1g.10gb" if strategy == "mixed" else "nvidia.com/gpu",
            count=count,
        )


def test_device_that_would_change_nothing_has_no_specification(
    nvidia_plugin: str, machine: Machine, driver: Path
) -> None:
    with NvidiaNode(machine, {"/driver-root": driver}) as node:
        files = _compared(node, nvidia_plugin, "--device-list-strategy=cdi-cri")

    assert files == {}


def test_node_without_driver_files_ends_the_plugin(nvidia_plugin: str, machine: Machine) -> None:
    with NvidiaNode(machine) as node:
        ours, theirs = (
            (plugin.exit_status(), " ".join(plugin.log.partition("error starting plugins")[2].split()))
            for plugin in node.both(nvidia_plugin, "--device-list-strategy=cdi-cri")
        )

    assert ours == theirs
