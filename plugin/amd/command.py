"""``plugin amd``."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from simkubelet.apis.numbers import Int

from ..command.options import CommonOptions, common_options
from ..command.plugin_command import PluginCommand
from ..command.pod_needs import PodNeeds

__all__ = ["command"]


def _needs(_options: Mapping[str, Any]) -> PodNeeds:
    return PodNeeds(folders=("/sys", "/var/lib/amd-metrics-exporter"), taint="amd.com/gpu")


@click.command(
    "amd",
    cls=PluginCommand,
    needs=_needs,
    short_help="amd.com/gpu: the GPUs and partitions that the amdgpu driver shows, as AMD's plugin serves them.",
    epilog="\b\nExamples:\n  simkubelet plugin amd -pulse 10\n"
    "  fakegpu amd up --profile mi300x --compute cpx --dir ./machine\n"
    "  simkubelet plugin amd --kubelet-dir ./node --host-root ./machine -resource_naming_strategy mixed",
)
@click.option(
    "-pulse",
    "--pulse",
    "pulse",
    type=Int(),
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="Time between health checks; 0: none.",
)
@click.option(
    "-resource_naming_strategy",
    "--resource_naming_strategy",
    "strategy",
    default="single",
    show_default=True,
    metavar="single|mixed",
    help="One resource gpu, or one for each partition mode, such as cpx_nps4.",
)
@common_options
def command(pulse: int, strategy: str, kubelet_dir: Path, host_root: Path, log_level: str) -> int:
    """Serve amd.com/gpu: every GPU, and every partition of one, that the amdgpu driver and KFD show in sysfs.

    Device ids are PCI addresses, and amdgpu_xcp_<n> for further partitions of a GPU. A container gets /dev/kfd and the
    two files of each device below /dev/dri. Where the kubelet may choose, it learns which devices are near to each
    other, partitions of one GPU first.

    With -pulse the list is sent again at each interval. AMD's metrics exporter reports the health of each device, at
    its socket below /var/lib/amd-metrics-exporter; without an exporter all are healthy while KFD's topology has a
    GPU.

    The plugin ends with status 1 when the kubelet's stream ends, so that its supervisor restarts it, and with status
    2 when there is no driver. Registration is tried three times, 3 s apart, then again when kubelet.sock appears.
    SIGINT, SIGTERM and SIGQUIT end it with status 0; the socket, amd.com_gpu, stays behind.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    import signal
    from dataclasses import replace

    from ..command.launch import launch
    from ..errors import FatalError
    from ..framework import OnSignal
    from ..framework.restart_policy import ORIGINAL
    from .device_plugin import AmdNode, plugins_of
    from .discovery import NamingStrategy
    from .exporter import SOCKET

    if strategy not in set(NamingStrategy):
        raise FatalError(f"invalid resource naming strategy: {strategy}")
    options = CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level)
    policy = replace(
        ORIGINAL,
        attempts=3,
        retry_s=3.0,
        exits_when_spent=False,
        signals=dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGQUIT), OnSignal.STOP),
        keeps_sockets=True,
    )
    system, exporter = options.on_host(Path("/sys")), options.on_host(SOCKET)
    return launch(
        options,
        policy,
        lambda: plugins_of(AmdNode(system, exporter, max(pulse, 0), _exit_at_once), NamingStrategy(strategy)),
    )


def _exit_at_once() -> None:
    """End the process so that its supervisor starts it again; the next one replaces the socket that stays behind."""
    logging.getLogger(__name__).error(
        "ListAndWatch stream disconnected: context canceled, exiting to trigger re-registration"
    )
    os._exit(1)
