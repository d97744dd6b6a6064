"""Runs volcano's plugins from their settings to their exit status.

Source: main.go, pkg/apis/config.go and pkg/plugin/nvidia/server.go (volcano-sh/devices 95b591b); cmd/vgpu/main.go
(volcano-vgpu-device-plugin 4fb76ba).
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from ..command.launch import launch
from ..command.options import CommonOptions
from ..errors import FatalError
from ..framework import DevicePlugin, OnSignal, RestartPolicy
from ..nvml.library import NvmlLibrary
from ..nvml.nvml import Nvml
from ..nvml.xid_policy import XidPolicy
from .gpus import Gpu
from .shared_gpu import Failures
from .start import api_server, gpus_of_node
from .vgpu import VgpuBooksPlugin, VgpuNumberPlugin, VgpuSettings
from .volcano import Strategy, VolcanoPlugin
from .xid_failures import ignored_by_sharing_plugins, xid_failures

__all__ = ["VolcanoSettings", "run_gpu", "run_vgpu"]

_FATAL: Final = 255
_PANIC: Final = 2
_VERSION: Final = "v1beta1"
_POLICY: Final = RestartPolicy(
    retry_s=0.1,
    signals=dict.fromkeys((signal.SIGHUP, signal.SIGINT, signal.SIGTERM), OnSignal.STOP),
    stop_status=_FATAL,
)


@dataclass(frozen=True, slots=True)
class VolcanoSettings:
    """The settings of gpu-memory and gpu-number as given."""

    strategy: str
    memory_factor: int
    config_file: Path | None

    def check(self) -> None:
        """Look at the file, whose content is then not used.

        Raises:
            FatalError: It cannot be read, or is of another version.
        """
        if self.config_file is None:
            return
        import yaml

        where = "unable to load config: unable to finalize config: unable to parse config file"
        try:
            content = yaml.safe_load(self.config_file.read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise FatalError(f"{where}: {' '.join(str(error).split())}") from None
        version = content.get("version") if isinstance(content, dict) else None
        if version not in (None, "", _VERSION):
            raise FatalError(f"{where}: error parsing config file: unknown version: {version}")


def run_gpu(settings: VolcanoSettings, environment: Mapping[str, str], options: CommonOptions) -> int:
    """Serve gpu-memory or gpu-number until the end; see `launch`."""
    nvml, sysfs = NvmlLibrary(), options.on_host(Path("/sys"))
    node = environment.get("NODE_NAME", "")
    strategy = Strategy.SHARE if settings.strategy == Strategy.SHARE else Strategy.NUMBER
    memory_mib = 0

    def build() -> list[VolcanoPlugin]:
        nonlocal memory_mib
        settings.check()
        gpus = gpus_of_node(nvml, sysfs)
        access = api_server(_FATAL)
        if not gpus:
            return []
        # What the first GPU had at the first start is kept.
        memory_mib = memory_mib or gpus[0].memory_mib
        failures = _failures(nvml, gpus, environment)
        return [VolcanoPlugin(gpus, memory_mib, settings.memory_factor, strategy, failures, access, node)]

    return launch(options, _POLICY, build)


def run_vgpu(settings: VgpuSettings, environment: Mapping[str, str], options: CommonOptions) -> int:
    """Serve the three resources of vgpu until the end; see `launch`."""
    nvml, sysfs = NvmlLibrary(), options.on_host(Path("/sys"))
    node = environment.get("NODE_NAME", "")

    def build() -> Sequence[DevicePlugin]:
        gpus = gpus_of_node(nvml, sysfs)
        access = api_server(1)
        if not gpus:
            return []
        policy = XidPolicy.from_environment(environment)
        uuids = [gpu.uuid for gpu in gpus]
        failures = None if policy.ignores_everything else partial(xid_failures, nvml, uuids, policy.ignores, 1)
        return [
            VgpuNumberPlugin(gpus, settings, failures, access, node),
            VgpuBooksPlugin.of_memory(gpus, settings, failures, access, node),
            VgpuBooksPlugin.of_cores(gpus, settings, failures, access, node),
        ]

    return launch(options, RestartPolicy.IN_PROCESS, build)


def _failures(nvml: Nvml, gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Failures | None:
    disabled = environment.get("DP_DISABLE_HEALTHCHECKS", "").lower()
    if disabled == "all" or "xids" in disabled:
        return None
    return partial(xid_failures, nvml, [gpu.uuid for gpu in gpus], ignored_by_sharing_plugins, _PANIC)
