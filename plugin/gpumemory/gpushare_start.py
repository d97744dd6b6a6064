"""Runs gpushare from its settings to its exit status.

The original looks for its token even where it never asks the kubelet; this one does not.

Source: cmd/nvidia/main.go, pkg/gpu/nvidia/gpumanager.go, ``Run``, and podmanager.go, ``kubeInit``
(gpushare-device-plugin 45fb8b8).
"""

from __future__ import annotations

import logging
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from ..apiserver import SERVICE_ACCOUNT, ServerAccess, unverified
from ..command.launch import launch
from ..command.logs import set_up_logging
from ..command.options import CommonOptions
from ..errors import FatalError
from ..framework import OnSignal, RestartPolicy
from ..nvml.library import NvmlLibrary
from .gpus import Gpu
from .gpushare import GpusharePlugin, MemoryUnit
from .start import api_server, gpus_of_node, wait_for_ever
from .xid_failures import ignored_by_sharing_plugins, xid_failures

__all__ = ["GpushareSettings", "run"]

_log = logging.getLogger(__name__)

_FATAL: Final = 255
_POLICY: Final = RestartPolicy(
    attempts=1,
    failed_status=2,
    signals={
        signal.SIGHUP: OnSignal.RESTART,
        signal.SIGINT: OnSignal.STOP,
        signal.SIGTERM: OnSignal.STOP,
        signal.SIGQUIT: OnSignal.NOTHING,
    },
)


@dataclass(frozen=True, slots=True)
class GpushareSettings:
    """The settings as given; `kubelet` is the address of the one that is asked for pods, None where none is."""

    memory_unit: str
    health_check: bool
    kubelet: str | None
    client_cert: str
    client_key: str
    token: str
    timeout_s: int
    node_name: str


def run(settings: GpushareSettings, options: CommonOptions) -> int:
    """Serve until the end; see `launch`."""
    set_up_logging(options.log_level)
    try:
        access = api_server(_FATAL)
        if not settings.node_name:
            raise FatalError("Please set env NODE_NAME", _FATAL)
        kubelet = _kubelet(settings)
    except FatalError as error:
        _log.error("%s", error)
        return error.exit_status
    nvml, sysfs = NvmlLibrary(), options.on_host(Path("/sys"))
    first = _first_gpu(nvml, sysfs)
    unit = _unit(settings.memory_unit)
    memory = unit.of(first.memory_mib)
    _log.info("set gpu memory: %d", memory)

    def build() -> list[GpusharePlugin]:
        gpus = gpus_of_node(nvml, sysfs)
        failures = None
        if settings.health_check:
            uuids = [gpu.uuid for gpu in gpus]
            failures = partial(xid_failures, nvml, uuids, ignored_by_sharing_plugins, _FATAL)
        return [GpusharePlugin(gpus, memory, unit, failures, access, settings.node_name, kubelet)]

    return launch(options, _POLICY, build)


def _first_gpu(nvml: NvmlLibrary, sysfs: Path) -> Gpu:
    """The GPU by which all are measured; without one the process waits until it is ended."""
    try:
        gpus = gpus_of_node(nvml, sysfs)
    except FatalError as error:
        _log.error("%s; waiting indefinitely.", error)
        wait_for_ever()
    if not gpus:
        _log.info("No devices found. Waiting indefinitely.")
        wait_for_ever()
    return gpus[0]


def _unit(text: str) -> MemoryUnit:
    try:
        return MemoryUnit(text)
    except ValueError:
        _log.warning("Unsupported memory unit: %s, use memoryUnit Gi as default", text)
        return MemoryUnit.GIB


def _kubelet(settings: GpushareSettings) -> ServerAccess | None:
    """Where the kubelet is asked for its pods, and as whom.

    Raises:
        FatalError: What lets in there cannot be read.
    """
    if settings.kubelet is None:
        return None
    token = settings.token
    try:
        if not (settings.client_cert or settings.client_key or token):
            token = (SERVICE_ACCOUNT / "token").read_text().strip()
        return unverified(settings.kubelet, token, settings.client_cert, settings.client_key, settings.timeout_s)
    except OSError as error:
        raise FatalError(f"in cluster mode, find token failed, error: {error}", 2) from None
