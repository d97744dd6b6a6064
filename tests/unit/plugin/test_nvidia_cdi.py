"""Fed in: a driver's files, device nodes and settings; observed: CDI specifications and what goes wrong with them.

Whole specifications are compared with those of NVIDIA's own plugin in tests/e2e/nvidia_go.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plugin.nvidia.cdi.hooks import ElfError, soname
from plugin.nvidia.cdi.node_files import CdiError, NodeFiles, cached_libraries
from plugin.nvidia.cdi.transforms import RootChange, on_node, root_changes, simplified
from plugin.nvidia.cdi.writing import write_specs
from plugin.nvidia.config.settings import NvidiaSettings
from plugin.nvidia.discovery.node import ImexChannel, join
from simkubelet.apis.cdi import CdiDevice, CdiSpec, ContainerEdits, DeviceNode, Hook, Mount

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_VERSION = "580.95.05"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The root of a node with a driver below ``/driver-root`` and device nodes that are plain files."""
    libraries = tmp_path / "driver-root" / _LIBRARIES
    libraries.mkdir(parents=True)
    (libraries / f"libcuda.so.{_VERSION}").touch()
    (libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{_VERSION}")
    (tmp_path / "dev").mkdir()
    return tmp_path


def _device(node: Path, path: str) -> None:
    """A character device, which a link to one is not."""
    place = node / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()


def _written(node: Path, nvml: Any, *channels: ImexChannel, **settings: Any) -> tuple[str, ...]:
    given = NvidiaSettings(device_list_strategies=("cdi-cri",), **settings)
    return write_specs(nvml, given, channels, "/", lambda path: node / path.relative_to("/"))


def _files(node: Path) -> dict[str, Any]:
    folder = node / "var/run/cdi"
    return {path.name: json.loads(path.read_text()) for path in folder.iterdir()} if folder.exists() else {}


def test_class_whose_devices_change_nothing_is_left_out(node: Path, make_nvml: Any) -> None:
    for name in ("nvidia0", "gdrdrv"):
        _device(node, f"/dev/{name}")

    assert _written(node, make_nvml(1)) == ()
    assert _files(node) == {}


def test_imex_channels_have_a_file_of_their_own(node: Path, make_nvml: Any) -> None:
    channel = ImexChannel("0", "/dev/channels/channel0", "/dev/channels/channel0")

    _written(node, make_nvml(1), channel)

    (spec,) = _files(node).values()
    assert spec == {
        "cdiVersion": "0.5.0",
        "kind": "k8s.device-plugin.nvidia.com/imex-channel",
        "devices": [
            {
                "name": "0",
                "containerEdits": {"deviceNodes": [{"path": channel.path, "hostPath": channel.host_path}]},
            }
        ],
        "containerEdits": {},
    }


def test_machine_without_gpus_has_no_specification(node: Path, make_nvml: Any) -> None:
    with pytest.raises(CdiError, match="failed to write spec: invalid CDI Spec: invalid spec, no devices"):
        _written(node, make_nvml(0))


def test_nvml_that_fails_ends_the_writing(node: Path, make_nvml: Any) -> None:
    nvml = make_nvml(1)
    nvml.failures["uuid"] = 15

    with pytest.raises(CdiError) as error:
        _written(node, nvml)

    assert str(error.value) == (
        "failed to get CDI spec: failed to construct device spec generators: failed to get full GPU device editors: "
        "error visiting device: failed to get device UUID: code 15"
    )
    assert nvml.sessions == 0


def test_library_of_another_version_is_not_the_drivers(node: Path, make_nvml: Any) -> None:
    libraries = node / "driver-root" / _LIBRARIES
    (libraries / f"libcuda.so.{_VERSION}").rename(libraries / "libcuda.so.1.2.3")

    with pytest.raises(CdiError, match=rf"libcuda\.so\.{_VERSION}: not found"):
        _written(node, make_nvml(1))


def test_version_that_nvml_does_not_tell_is_in_the_librarys_name(node: Path, make_nvml: Any) -> None:
    nvml = make_nvml(1)
    nvml.failures["driver_version"] = 3

    assert _written(node, nvml) == ()


def test_folder_that_cannot_be_written_is_reported(node: Path, make_nvml: Any) -> None:
    (node / "var").touch()

    with pytest.raises(CdiError, match="failed to save CDI spec: failed to write spec"):
        _written(node, make_nvml(1), ImexChannel("0", "/dev/channel0", "/dev/channel0"))


def test_libraries_are_also_found_through_the_loaders_cache() -> None:
    found = cached_libraries(Path("/etc/ld.so.cache"))

    assert any(Path(path).name.startswith("libc.so") for path in found)
    files = NodeFiles("/", lambda path: path)
    name = next(Path(path).name for path in found if Path(path).exists())
    assert all(Path(path).exists() for path in files.find_library(name))


@pytest.mark.parametrize(
    "content", [b"", b"ld.so-1.7.0", b"glibc-ld.so.cache1.1", b"glibc-ld.so.cache1.1" + b"\xff" * 60]
)
def test_broken_cache_names_no_library(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cache").write_bytes(content)

    assert cached_libraries(tmp_path / "cache") == []
    assert cached_libraries(tmp_path / "missing") == []


def test_soname_of_a_library() -> None:
    libc = next(path for path in cached_libraries(Path("/etc/ld.so.cache")) if path.endswith("/libc.so.6"))

    assert soname(Path(libc)) == "libc.so.6"


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_file_that_is_not_a_library_has_no_soname(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)

    with pytest.raises(ElfError):
        soname(tmp_path / "file")


def test_what_all_devices_have_is_said_once_and_in_order() -> None:
    shared, deep, own = DeviceNode("/dev/b"), DeviceNode("/dev/a/a"), DeviceNode("/dev/own")
    mounts = tuple(Mount(f"/{name}", f"/{name}") for name in ("b/c", "z", "a/b", "z"))
    spec = CdiSpec(
        devices=(_with_nodes("z", own, shared, own), _with_nodes("a", shared)),
        container_edits=ContainerEdits(device_nodes=(deep, shared), mounts=mounts, env=("A=1", "A=1")),
    )

    simple = simplified(spec)

    assert simple.devices == (_with_nodes("a", shared), _with_nodes("z", own))
    assert simple.container_edits.device_nodes == (shared, deep)
    assert [mount.host_path for mount in simple.container_edits.mounts] == ["/z", "/a/b", "/b/c"]
    assert simple.container_edits.env == ("A=1",)


def _with_nodes(name: str, *nodes: DeviceNode) -> CdiDevice:
    return CdiDevice(name, container_edits=ContainerEdits(device_nodes=nodes))


def test_paths_become_the_nodes() -> None:
    hook, mount = Hook(path="/driver-root/bin/hook", args=("/driver-root/x",)), Mount("/driver-root/lib/a", "/lib/a")
    edits = ContainerEdits(hooks=(hook,), mounts=(mount,), device_nodes=(DeviceNode("/dev/a"),))
    changes = root_changes(RootChange("/driver-root", "/run/driver/"), RootChange("/", "/other/dev"))

    changed = on_node(CdiSpec(devices=(CdiDevice("a", container_edits=edits),), container_edits=edits), changes)

    assert changed.container_edits == changed.devices[0].container_edits
    assert changed.container_edits == ContainerEdits(
        hooks=(Hook(path="/run/driver/bin/hook", args=("/driver-root/x",)),),
        mounts=(Mount("/run/driver/lib/a", "/lib/a"),),
        device_nodes=(DeviceNode("/dev/a", "/other/dev/a"),),
    )


def test_text_is_written_as_gos_encoder_does(node: Path, make_nvml: Any) -> None:
    channel = "/dev/<a&b>\u2028"

    _written(node, make_nvml(1), ImexChannel("0", channel, channel))

    (file,) = (node / "var/run/cdi").iterdir()
    assert r'"path":"/dev/\u003ca\u0026b\u003e\u2028"' in file.read_text()


@pytest.mark.parametrize("root", ["/", "/driver-root"])
def test_roots_that_are_the_same_change_nothing(root: str) -> None:
    assert root_changes(RootChange(root, root), RootChange(root, "/elsewhere")) == ()


def test_link_that_leads_out_of_the_node_keeps_its_own_name(tmp_path: Path) -> None:
    root = tmp_path / "node"
    (root / "usr/lib64").mkdir(parents=True)
    (tmp_path / "outside.so.1").touch()
    (root / "usr/lib64/libout.so.1").symlink_to(tmp_path / "outside.so.1")
    (root / "usr/lib64/libin.so.1.2").touch()
    (root / "usr/lib64/libin.so.1").symlink_to("libin.so.1.2")
    files = NodeFiles("/", lambda path: root / path.relative_to("/"))

    assert files.find_library("libout.so.1") == ["/usr/lib64/libout.so.1"]
    assert files.find_library("libin.so.1") == ["/usr/lib64/libin.so.1.2"]


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        (("/", "/dev/a"), "/dev/a"),
        (("", "/dev/a"), "/dev/a"),
        (("//run//x/", "./dev/../dev/a"), "/run/x/dev/a"),
        (("run", "a"), "run/a"),
        (("", ""), ""),
    ],
)
def test_paths_are_joined_as_go_does_it(parts: tuple[str, ...], path: str) -> None:
    assert join(*parts) == path
