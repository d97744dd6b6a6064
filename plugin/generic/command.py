"""``plugin generic``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import click

from ..command.options import CommonOptions, FilePath, common_options
from ..command.plugin_command import PluginCommand
from ..command.pod_needs import PodNeeds

__all__ = ["command"]


def _needs(options: Mapping[str, Any]) -> PodNeeds:
    from .description import Description

    folders = {_folder_of(glob.glob) for glob in Description.read(options["config"]).globs}
    return PodNeeds(folders=tuple(sorted(folders)), config=("--config", options["config"]))


def _folder_of(glob: str) -> str:
    """The deepest folder in which all files of a glob lie."""
    parents = PurePosixPath(glob).parents
    return str(next(folder for folder in parents if not set("*?[") & set(str(folder))))


@click.command(
    "generic",
    cls=PluginCommand,
    needs=_needs,
    short_help="Any resource: device files that a YAML file describes.",
    epilog="\b\nExample, with this in serial.yaml:\n"
    "  resource: example.com/serial-line\n"
    "  devices: [/dev/ttyUSB*, {glob: /dev/ttyS0, permissions: r}]\n"
    "  replicas: 1\n"
    "  env: {SERIAL_LINES: '{paths}'}\n"
    "  mounts: [{hostPath: /opt/serial, mountPath: /serial, readOnly: true}]\n\n\b\n"
    "  simkubelet plugin generic --config serial.yaml",
)
@click.option(
    "--config",
    type=FilePath(path_type=Path),
    required=True,
    metavar="FILE",
    help="The YAML file that describes the resource; read again at SIGHUP.",
)
@common_options
def command(config: Path, kubelet_dir: Path, host_root: Path, log_level: str) -> int:
    """Serve the resource of FILE: every file that a glob finds below --host-root is a device.

    A container that gets devices finds their files at the same paths, as device nodes (mount: true makes them
    mounts), and gets the mounts and the variables of FILE, in which {devices} stands for the devices' names and
    {paths} for their files. With count: N in place of devices there are N devices without files; replicas: N offers
    each device N times.

    A new file is a new device at once; the device of a removed file is unhealthy until the file is back. For a
    new kubelet.sock, and when its own socket is removed or the kubelet has ended ListAndWatch, the plugin starts again;
    without a kubelet it retries after 5 s. SIGINT, SIGTERM and SIGQUIT stop it: its socket, DOMAIN-NAME.sock, is
    removed, status 0.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    from ..command.launch import launch
    from ..framework import RestartPolicy
    from .description import Description
    from .device_plugin import GenericPlugin

    options = CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level)
    policy = RestartPolicy(restarts_without_socket=True)
    return launch(options, policy, lambda: [GenericPlugin(Description.read(config), host_root)])
