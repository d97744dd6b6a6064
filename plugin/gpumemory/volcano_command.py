"""``plugin volcano``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from simkubelet.apis.numbers import FloatRange, IntRange

from ..command.options import CommonOptions, EnvironmentOption, FilePath, common_options, go_bool_option
from ..command.plugin_command import PluginCommand
from ..command.pod_needs import PodNeeds, rule
from . import sharing_needs

__all__ = ["command"]


def _needs(options: Mapping[str, Any]) -> PodNeeds:
    config = options.get("config_file")
    is_split = options.get("gpu_strategy") == "vgpu"
    return sharing_needs(
        rule("", ["nodes"], "get", "update", "patch"),
        rule("", ["nodes/status"], "patch"),
        # The folder of HAMi's library and, where a lock and caches are made, that of temporary files.
        folders=("/tmp", "/usr/local/vgpu") if is_split else (),  # noqa: S108
        config=("--config-file", Path(config)) if config else None,
        env={"HOOK_PATH": "/usr/local/vgpu"} if is_split else {},
        taint="volcano.sh/gpu-memory",
    )


@click.command(
    "volcano",
    cls=PluginCommand,
    variables=("DP_DISABLE_HEALTHCHECKS", "DP_ENABLE_HEALTHCHECKS", "HOOK_PATH"),
    needs=_needs,
    short_help="volcano.sh/gpu-memory, gpu-number and vgpu-*: GPUs that Volcano's scheduler gives out.",
    epilog="\b\nExamples:\n  NODE_NAME=node-1 KUBECONFIG=~/.kube/config simkubelet plugin volcano\n"
    "  NODE_NAME=node-1 simkubelet plugin volcano --gpu-strategy vgpu --device-split-count 4",
)
@click.option(
    "--gpu-strategy",
    cls=EnvironmentOption,
    envvar="GPU_STRATEGY",
    show_envvar=True,
    default="share",
    show_default=True,
    metavar="share|number|vgpu",
    help="What to serve: memory, whole GPUs, or split GPUs; any other value means number.",
)
@click.option(
    "--gpu-memory-factor",
    envvar="GPU_MEMORY_FACTOR",
    show_envvar=True,
    type=IntRange(min=1),
    default=1,
    show_default=True,
    help="MiB of one device of gpu-memory or vgpu-memory.",
)
@click.option(
    "--config-file",
    envvar="CONFIG_FILE",
    show_envvar=True,
    type=FilePath(path_type=Path),
    help="Only its version, v1beta1, is checked; the rest has no effect, as in the original.",
)
@click.option(
    "--device-split-count",
    type=IntRange(min=1),
    default=2,
    show_default=True,
    help="With vgpu: containers that may share a GPU.",
)
@click.option(
    "--device-cores-scaling",
    type=FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="With vgpu: a value above 1 allocates more cores than there are.",
)
@go_bool_option("--gdrcopy-enabled", "GDRCOPY_ENABLED", default=True, text="With vgpu: set NVIDIA_GDRCOPY=enabled.")
@go_bool_option("--gds-enabled", "GDS_ENABLED", default=True, text="With vgpu: set NVIDIA_GDS=enabled.")
@go_bool_option("--mofed-enabled", "MOFED_ENABLED", default=True, text="With vgpu: set NVIDIA_MOFED=enabled.")
@common_options
def command(
    gpu_strategy: str,
    gpu_memory_factor: int,
    config_file: Path | None,
    device_split_count: int,
    device_cores_scaling: float,
    gdrcopy_enabled: bool,
    gds_enabled: bool,
    mofed_enabled: bool,
    kubelet_dir: Path,
    host_root: Path,
    log_level: str,
) -> int:
    """Serve volcano.sh/gpu-memory, volcano.sh/gpu-number, or the three volcano.sh/vgpu-* with --gpu-strategy vgpu.

    gpu-memory has as many devices on each GPU as the first one has MiB, divided by the factor, and the number of GPUs
    is written to the node's status as volcano.sh/gpu-number. The scheduler writes into a pod's annotations the
    indices of its GPUs (volcano.sh/gpu-index) and the time of the decision (volcano.sh/predicate-time). An Allocate
    call does not name its pod, so the plugin takes the pending pod with the earliest time that has a container of the
    requested size, and sets volcano.sh/gpu-assigned: "true". GPUs that report an XID are listed in the node's
    annotation volcano.sh/gpu-unhealthy-ids; DP_DISABLE_HEALTHCHECKS with "all" or "xids" disables this.

    With vgpu the annotation volcano.sh/devices-to-allocate lists the devices of each container of a pod, and
    allocated devices are removed from it; HOOK_PATH names the folder of HAMi's library on the node.

    NODE_NAME names the node, as the API server of KUBECONFIG or of the pod's service account knows it. A new
    kubelet.sock restarts the plugin. SIGHUP, SIGINT and SIGTERM stop it with status 255; with vgpu SIGHUP restarts
    it and the status is 0.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    from .vgpu import VgpuSettings
    from .volcano import VolcanoSettings, run_gpu, run_vgpu

    options = CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level)
    environment = os.environ
    if gpu_strategy == "vgpu":
        modes = {"NVIDIA_GDRCOPY": gdrcopy_enabled, "NVIDIA_GDS": gds_enabled, "NVIDIA_MOFED": mofed_enabled}
        vgpu = VgpuSettings(
            device_split_count,
            gpu_memory_factor,
            device_cores_scaling,
            environment.get("HOOK_PATH", ""),
            host_root,
            tuple(name for name, is_enabled in modes.items() if is_enabled),
        )
        return run_vgpu(vgpu, environment, options)
    settings = VolcanoSettings(gpu_strategy, gpu_memory_factor, config_file)
    return run_gpu(settings, environment, options)
