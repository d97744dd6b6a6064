"""``plugin gpu-memory``."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..command.options import CommonOptions, common_options
from ..command.plugin_command import PluginCommand, Quirks
from ..command.pod_needs import PodNeeds, rule
from . import sharing_needs

__all__ = ["command"]

_QUIRKS = {
    "annotation-names": "The annotations are doslab.io/gpu-assume-time, doslab.io/gpu-assigned and doslab.io/gpu-uuid "
    "instead of DOSLAB_IO_GPU_ASSUME_TIME, DOSLAB_IO_GPU_ASSIGNED and DOSLAB_IO_GPU_UUID.",
    "gem-scheduler": "Allocate waits up to 10 s for the annotations doslab.io/gem-scheduler-ip and "
    "doslab.io/gem-podmanager-port, and the container gets POD_MANAGER_IP, POD_MANAGER_PORT, POD_NAME, LD_PRELOAD and "
    "NVIDIA_DRIVER_CAPABILITIES too.",
    "last-pending-pod": "If any pod waits for a GPU, the last pending pod of the node is taken, whatever it requests.",
    "no-last-list": "No empty list is sent when the plugin stops.",
    "stale-socket": "A socket that a killed plugin left keeps the next one from listening until the kubelet starts.",
}


def _needs(_options: Mapping[str, Any]) -> PodNeeds:
    return sharing_needs(rule("", ["nodes"], "get"), rule("", ["nodes/status"], "update"))


@click.command(
    "gpu-memory",
    cls=PluginCommand,
    needs=_needs,
    quirks=_QUIRKS,
    short_help="doslab.io/gpu-memory: one device for each MB of GPU memory.",
    epilog="\b\nExample:\n  KUBECONFIG=~/.kube/config simkubelet plugin gpu-memory --node-name node-1",
)
@click.option(
    "-masterUrl", "--masterUrl", "master_url", metavar="URL", help="URL of the API server, which is not verified."
)
@click.option("-token", "--token", metavar="TOKEN", default="", help="Token for the API server.")
@click.option(
    "--node-name",
    envvar="NODE_NAME",
    show_envvar=True,
    default=socket.gethostname,
    show_default="the host's",
    metavar="NAME",
    help="The node's name in the API server.",
)
@common_options
def command(
    master_url: str | None,
    token: str,
    node_name: str,
    kubelet_dir: Path,
    host_root: Path,
    log_level: str,
    quirks: Quirks,
) -> int:
    """Serve doslab.io/gpu-memory: a device for each MB of every GPU that libnvidia-ml.so.1 shows.

    The number of GPUs is written to the node's status as doslab.io/gpu-count and a hundred times that as
    doslab.io/gpu-core, 0 at the end. A scheduler writes into a pod's annotations its GPU (DOSLAB_IO_GPU_UUID), the
    time of the decision (DOSLAB_IO_GPU_ASSUME_TIME), and "false" as DOSLAB_IO_GPU_ASSIGNED. An Allocate call does not
    name its pod, so the plugin takes the pending pod of the requested size with the earliest time. Its containers get
    the GPU in NVIDIA_VISIBLE_DEVICES, and "true" is written to DOSLAB_IO_GPU_ASSIGNED.

    The API server is the one of --masterUrl, of the file KUBECONFIG, or of the pod's service account. A new
    kubelet.sock restarts the plugin; SIGHUP, SIGINT and SIGTERM stop it with status 1.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    import signal
    from dataclasses import replace

    from ..apiserver import unverified
    from ..command.launch import launch
    from ..framework import OnSignal
    from ..framework.restart_policy import ORIGINAL
    from ..nvml.library import NvmlLibrary
    from .doslab import DoslabOriginal, DoslabPlugin
    from .gpus import api_server, gpus_of_node

    options = CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level)
    nvml, sysfs = NvmlLibrary(), options.on_host(Path("/sys"))

    def build() -> list[DoslabPlugin]:
        access = unverified(master_url, token) if master_url else api_server(1)
        gpus = gpus_of_node(nvml, sysfs)
        if not gpus:
            return []
        if quirks is Quirks.ORIGINAL:
            return [DoslabOriginal(gpus, access, node_name, kubelet_dir)]
        return [DoslabPlugin(gpus, access, node_name)]

    stops = dict.fromkeys((signal.SIGHUP, signal.SIGINT, signal.SIGTERM), OnSignal.STOP)
    return launch(options, replace(ORIGINAL, retry_s=0.1, signals=stops, stop_status=1), build)
