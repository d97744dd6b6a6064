"""``plugin nvidia-mps``: what runs beside the plugin where GPUs are shared by MPS.

Source: cmd/mps-control-daemon/main.go (k8s-device-plugin v0.19.0); the texts are the original's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ...command.options import CommonOptions, EnvironmentOption, FilePath, common_options
from ...command.plugin_command import PluginCommand
from ...command.pod_needs import PodNeeds
from ..config.flags import given_settings

__all__ = ["command", "mps_mounts"]


def mps_mounts(root: str) -> dict[str, str]:
    """Where a pod sees the daemons' folders and, where the control daemon shares its memory, that of `root`."""
    return {"/mps": root, "/dev/shm": f"{root}/shm"}  # noqa: S108 - where every container has it


def _needs(options: Mapping[str, Any]) -> PodNeeds:
    """Source: deployments/helm/nvidia-device-plugin, daemonset-mps-control-daemon.yml (k8s-device-plugin v0.19.0)."""
    config = options.get("config_file")
    return PodNeeds(
        mounts=mps_mounts("/run/nvidia/mps"),
        config=("--config-file", Path(config)) if config else None,
        env={"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"},
        is_privileged=True,
        taint="nvidia.com/gpu",
    )


@click.command(
    "nvidia-mps",
    cls=PluginCommand,
    needs=_needs,
    short_help="Beside nvidia: the control daemons of GPUs that are shared by MPS.",
    epilog="\b\nExample:\n  simkubelet plugin nvidia-mps --config-file config.yaml",
)
@click.option(
    "--config-file",
    cls=EnvironmentOption,
    envvar="CONFIG_FILE",
    show_envvar=True,
    type=FilePath(),
    default="",
    metavar="FILE",
    help="The file with the plugin's settings.",
)
@click.option(
    "--mig-strategy",
    cls=EnvironmentOption,
    envvar="MIG_STRATEGY",
    show_envvar=True,
    default="none",
    show_default=True,
    metavar="none|single|mixed",
    help="The plugin's strategy, which decides which GPUs a resource has.",
)
@common_options
@click.pass_context
def command(context: click.Context, /, kubelet_dir: Path, host_root: Path, log_level: str, **settings: Any) -> int:
    """Run an MPS control daemon for each resource that the settings share with MPS. It is not a device plugin.

    It takes nvidia-cuda-mps-control on the PATH. The daemons' folders are below /mps, which the plugin and the
    containers see too. SIGHUP restarts the daemons; SIGINT, SIGTERM and SIGQUIT end them, status 0. A daemon that
    does not start is tried again after 30 s.
    """
    # Imported here: --help does not need it.
    from ...nvml.library import NvmlLibrary
    from .daemon import run_daemons

    options = CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level)
    return run_daemons(NvmlLibrary(), given_settings(context, settings), options)
