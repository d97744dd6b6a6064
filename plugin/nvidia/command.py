"""``plugin nvidia``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from ..command.options import CommonOptions, EnvironmentOption, FilePath, common_options, is_in_container
from ..command.plugin_command import PluginCommand, Quirks
from ..command.pod_needs import PodNeeds
from .config.flags import given_settings, settings_flags

__all__ = ["command"]

_QUIRKS: Final = {
    "one-device-fails": "An XID of a GPU makes one of its devices unhealthy; the other replicas or MIG devices stay "
    "healthy.",
}


def _needs(options: Mapping[str, Any]) -> PodNeeds:
    """Source: deployments/helm/nvidia-device-plugin (k8s-device-plugin v0.19.0)."""
    from .mps.command import mps_mounts

    config = options.get("config_file")
    driver_root = options.get("nvidia_driver_root") or "/"
    mps_root = options.get("mps_root")
    is_divided = options.get("mig_strategy") in ("single", "mixed")
    return PodNeeds(
        folders=("/var/run/cdi",),
        mounts={"/driver-root": driver_root, **(mps_mounts(mps_root) if mps_root else {})},
        config=("--config-file", Path(config)) if config else None,
        env={
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
            **({"NVIDIA_MIG_MONITOR_DEVICES": "all"} if is_divided else {}),
        },
        is_privileged=bool(options.get("pass_device_specs")),
        capabilities=("SYS_ADMIN",) if is_divided else (),
        taint="nvidia.com/gpu",
    )


@click.command(
    "nvidia",
    cls=PluginCommand,
    needs=_needs,
    quirks=_QUIRKS,
    variables=("DP_DISABLE_HEALTHCHECKS", "DP_ENABLE_HEALTHCHECKS"),
    short_help="nvidia.com/gpu and nvidia.com/mig-*: the devices of NVML, as NVIDIA's plugin v0.19.0 serves them.",
    epilog="\b\nExamples:\n  simkubelet plugin nvidia\n"
    "  fakegpu exec -- simkubelet plugin nvidia --kubelet-dir ./node --mig-strategy=mixed",
)
@settings_flags
@click.option(
    "--kubelet-socket",
    cls=EnvironmentOption,
    envvar="KUBELET_SOCKET",
    show_envvar=True,
    type=FilePath(),
    metavar="PATH",
    help="The kubelet's socket, if not kubelet.sock in --kubelet-dir; empty: run without a kubelet.",
)
@common_options
@click.pass_context
def command(
    context: click.Context,
    /,
    kubelet_socket: str | None,
    kubelet_dir: Path,
    host_root: Path,
    log_level: str,
    quirks: Quirks,
    **settings: Any,
) -> int:
    """Serve nvidia.com/gpu, and nvidia.com/mig-* if asked to: the devices that libnvidia-ml.so.1 shows.

    The library is searched below --driver-root-ctr-path, then in the loader's path. Device ids are UUIDs, of a shared
    device UUID::N; the NUMA node comes from sysfs below --host-root. A GPU that reports an XID becomes
    unhealthy, except for XIDs that applications cause (13, 31, 43, 45, 68, 109); DP_DISABLE_HEALTHCHECKS and
    DP_ENABLE_HEALTHCHECKS change that list ("all" or XIDs with commas). It is healthy again after the next discovery:
    SIGHUP and a new kubelet.sock start one.

    A flag overrides its variable, which overrides the file; an empty variable counts as given. Without a kubelet the
    plugin retries after 30 s and when kubelet.sock appears. SIGINT, SIGTERM and SIGQUIT stop it: its sockets are
    removed, status 0.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    from ..command.launch import launch
    from ..framework.restart_policy import ORIGINAL
    from ..nvml.library import NvmlLibrary
    from .start import start

    options = CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level)
    given = given_settings(context, settings)
    nvml = NvmlLibrary()
    return launch(
        options,
        ORIGINAL,
        # In a container on a simulated node the settings are those of who creates pods there.
        partial(start, nvml, given.load, host_root, os.environ, quirks, has_libraries=not is_in_container(context)),
        kubelet_socket=kubelet_socket,
    )
