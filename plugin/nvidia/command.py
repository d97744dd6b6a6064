"""``plugin nvidia``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..options import CommonOptions, EnvironmentOption, common_options, go_bool_option
from .settings import NvidiaSettings, split_list

__all__ = ["command"]


@click.command(
    "nvidia",
    short_help="nvidia.com/gpu: the GPUs that NVML shows, as NVIDIA's plugin v0.19.0 serves them.",
    epilog="\b\nExamples:\n  simkubelet plugin nvidia\n"
    "  fakegpu exec -- simkubelet plugin nvidia --kubelet-dir ./node --gds-enabled=false",
)
@go_bool_option(
    "--fail-on-init-error",
    "FAIL_ON_INIT_ERROR",
    default=True,
    text="Exit with status 1 when NVML is missing or fails; otherwise serve nothing and wait.",
)
@click.option(
    "--device-list-strategy",
    cls=EnvironmentOption,
    envvar="DEVICE_LIST_STRATEGY",
    show_envvar=True,
    default="envvar",
    show_default=True,
    metavar="LIST",
    help="How a container learns of its GPUs: envvar, cdi-cri, or both.",
)
@click.option(
    "--device-id-strategy",
    cls=EnvironmentOption,
    envvar="DEVICE_ID_STRATEGY",
    show_envvar=True,
    default="uuid",
    show_default=True,
    metavar="uuid|index",
    help="By what the GPUs are named to the container runtime.",
)
@go_bool_option(
    "--gdrcopy-enabled", "GDRCOPY_ENABLED", default=True, text="Set NVIDIA_GDRCOPY=enabled in every container."
)
@go_bool_option("--gds-enabled", "GDS_ENABLED", default=True, text="Set NVIDIA_GDS=enabled in every container.")
@go_bool_option("--mofed-enabled", "MOFED_ENABLED", default=True, text="Set NVIDIA_MOFED=enabled in every container.")
@common_options
def command(
    fail_on_init_error: bool,
    device_list_strategy: str,
    device_id_strategy: str,
    gdrcopy_enabled: bool,
    gds_enabled: bool,
    mofed_enabled: bool,
    kubelet_dir: Path,
    host_root: Path,
    log_level: str,
) -> int:
    """Serve nvidia.com/gpu: every GPU that libnvidia-ml.so.1 shows, found by the loader's normal search.

    Device ids are the GPUs' UUIDs, the NUMA node comes from sysfs below --host-root. A container sees its GPUs in
    NVIDIA_VISIBLE_DEVICES. A GPU that reports an XID becomes unhealthy, except for XIDs that applications cause (13,
    31, 43, 45, 68, 109); DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS change that list ("all" or XIDs with
    commas). It is healthy again after the next discovery: SIGHUP and a new kubelet.sock start one.

    An option given beats its variable; an empty variable counts as given. Without a kubelet the plugin tries again
    after 30 s and when kubelet.sock appears. SIGINT, SIGTERM and SIGQUIT stop it: the socket nvidia-gpu.sock is
    removed, status 0.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    from ..framework import RestartPolicy
    from ..launch import launch
    from .nvml import PyNvml
    from .start import start

    options = CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level)
    settings = NvidiaSettings(
        fail_on_init_error=fail_on_init_error,
        device_list_strategies=split_list(device_list_strategy),
        device_id_strategy=device_id_strategy.strip(),
        gdrcopy_enabled=gdrcopy_enabled,
        gds_enabled=gds_enabled,
        mofed_enabled=mofed_enabled,
    )
    nvml, sysfs = PyNvml(), options.on_host(Path("/sys"))
    return launch(options, RestartPolicy.IN_PROCESS, lambda: start(nvml, settings, sysfs, os.environ))
