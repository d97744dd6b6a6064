"""Fed in: settings, an NVML of plain values, the node's files; observed: the plugins made, or the error."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from plugin.errors import FatalError
from plugin.nvidia.config.flags import GivenSettings
from plugin.nvidia.device_plugin import NvidiaPlugin
from plugin.nvidia.start import start
from plugin.nvml.nvml import NvmlReturn
from tests.support.fake_nvml import FakeMig

_STARTING = "error starting plugins"
_MANAGERS = f"{_STARTING}: error getting plugins: unable to create plugins: failed to construct resource managers"


def _start(nvml: Any, root: Path, **fields: Any) -> list[NvidiaPlugin]:
    plugins = start(nvml, GivenSettings(fields).load, root, {})
    assert nvml.sessions == 0
    return plugins


def _last_words(nvml: Any, root: Path, **fields: Any) -> str:
    with pytest.raises(FatalError) as end:
        _start(nvml, root, **fields)
    assert end.value.exit_status == 1
    assert nvml.sessions == 0
    return str(end.value)


def test_each_resource_has_a_plugin_and_a_socket(make_nvml: Any, tmp_path: Path) -> None:
    minors = tmp_path / "proc/driver/nvidia-caps/mig-minors"
    minors.parent.mkdir(parents=True)
    minors.write_text("gpu0/gi1/access 30\ngpu0/gi1/ci0/access 31\n")
    nvml = make_nvml(2)
    nvml.mig = {0: {0: FakeMig(1)}}

    plugins = _start(nvml, tmp_path, mig_strategy="mixed")

    assert [(plugin.resource_name, plugin.socket_name) for plugin in plugins] == [
        ("nvidia.com/gpu", "nvidia-gpu.sock"),
        ("nvidia.com/mig-1g.10gb", "nvidia-mig-1g.10gb.sock"),
    ]


def test_machine_without_gpus_has_no_plugin(make_nvml: Any, tmp_path: Path) -> None:
    assert _start(make_nvml(0), tmp_path) == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(None, "invalid device discovery strategy", id="no library"),
        pytest.param(9, "nvml init failed: code 9", id="driver not loaded"),
    ],
)
def test_missing_nvml_ends_the_start_by_default(make_nvml: Any, tmp_path: Path, code: int | None, reason: str) -> None:
    nvml = make_nvml(1)
    nvml.has_library = code is not None
    if code is not None:
        nvml.failures["init"] = code

    assert _start(nvml, tmp_path, fail_on_init_error=False) == []
    assert _last_words(nvml, tmp_path) == f"{_MANAGERS}: {reason}"


def test_library_that_is_asked_for_and_missing_is_an_nvml_that_fails(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(1)
    nvml.has_library = False

    assert _last_words(nvml, tmp_path, device_discovery_strategy="nvml") == (
        f"{_MANAGERS}: nvml init failed: ERROR_LIBRARY_NOT_FOUND"
    )


def test_mixed_strategy_needs_nvml_before_it_looks_for_gpus(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(1)
    nvml.failures["init"] = NvmlReturn.LIBRARY_NOT_FOUND

    assert _start(nvml, tmp_path, mig_strategy="mixed", fail_on_init_error=False) == []
    assert _last_words(nvml, tmp_path, mig_strategy="mixed") == (
        f"{_STARTING}: unable to add default resources to config: failed to initialize NVML: code 12"
    )


@pytest.mark.parametrize(
    ("path", "text"), [("etc/nv_tegra_release", ""), ("sys/devices/soc0/family", "Tegra\n")], ids=["release", "family"]
)
def test_tegra_is_known_by_its_files_where_there_is_no_library(
    make_nvml: Any, tmp_path: Path, path: str, text: str
) -> None:
    nvml = make_nvml(0)
    nvml.has_library = False
    file = tmp_path / "driver-root" / path
    file.parent.mkdir(parents=True)
    file.write_text(text)

    assert [plugin.resource_name for plugin in _start(nvml, tmp_path)] == ["nvidia.com/gpu"]


@pytest.mark.parametrize("name", ["Orin (nvgpu)", "NVIDIA Thor"])
def test_tegra_is_known_by_an_integrated_gpu(make_nvml: Any, tmp_path: Path, name: str) -> None:
    nvml = make_nvml(1)
    nvml.names = [name]
    nvml.failures["uuid"] = 3

    assert [plugin.resource_name for plugin in _start(nvml, tmp_path)] == ["nvidia.com/gpu"]


def test_library_is_looked_for_below_the_driver_root_first(make_nvml: Any, tmp_path: Path) -> None:
    folder = tmp_path / "driver-root/usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / "libnvidia-ml.so.580").touch()
    (folder / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580")
    nvml, asked = make_nvml(1), []
    nvml.load = lambda library: not asked.append(library)  # type: ignore[func-returns-value]  # the result must be true

    _start(nvml, tmp_path)
    _start(nvml, tmp_path, container_driver_root="/elsewhere")

    assert asked == [str(folder / "libnvidia-ml.so.580"), "libnvidia-ml.so.1"]


def test_file_is_read_at_every_start(make_nvml: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    given = GivenSettings({}, str(file))
    file.write_text("flags: {migStrategy: none}")
    assert len(start(make_nvml(1), given.load, tmp_path, {})) == 1

    file.write_text("version: v2")
    with pytest.raises(FatalError) as end:
        start(make_nvml(1), given.load, tmp_path, {})

    assert str(end.value) == (
        f"{_STARTING}: unable to load config: unable to finalize config: unable to parse config file: "
        "error parsing config file: unknown version: v2"
    )


def test_mps_does_not_share_mig_devices(make_nvml: Any, tmp_path: Path) -> None:
    minors = tmp_path / "proc/driver/nvidia-caps/mig-minors"
    minors.parent.mkdir(parents=True)
    minors.write_text("gpu0/gi1/access 30\ngpu0/gi1/ci0/access 31\n")
    (tmp_path / "config.yaml").write_text("sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}")
    nvml = make_nvml(1)
    nvml.mig = {0: {0: FakeMig(1)}}
    given = GivenSettings({"mig_strategy": "single", "mps_root": "/run/mps"}, str(tmp_path / "config.yaml"))

    with pytest.raises(FatalError) as end:
        start(nvml, given.load, tmp_path, {})

    assert str(end.value) == (
        f"{_STARTING}: error getting plugins: unable to create plugins: failed to create plugin: "
        "sharing using MPS is not supported for MIG devices"
    )


def test_settings_are_logged_as_json(make_nvml: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "config.yaml").write_text(
        "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 2}]}}"
    )
    given = GivenSettings({"mig_strategy": "single", "nvidia_driver_root": "/run/x"}, str(tmp_path / "config.yaml"))

    with caplog.at_level(logging.INFO, "plugin"):
        start(make_nvml(1), given.load, tmp_path, {})

    config = json.loads(caplog.text.partition("Running with config: ")[2].splitlines()[0])
    assert config["flags"]["migStrategy"] == "single"
    assert config["flags"]["nvidiaDevRoot"] == "/run/x"
    assert config["flags"]["plugin"]["deviceListStrategy"] == ["envvar"]
    assert config["resources"] == {
        "gpus": [{"pattern": "*", "name": "nvidia.com/gpu"}],
        "mig": [{"pattern": "*", "name": "nvidia.com/gpu"}],
    }
    assert config["sharing"]["timeSlicing"] == {
        "renameByDefault": True,
        "resources": [{"name": "nvidia.com/gpu", "rename": "nvidia.com/gpu.shared", "devices": "all", "replicas": 2}],
    }
