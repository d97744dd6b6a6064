"""``plugin gopher``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..command.options import CommonOptions, common_options
from ..command.plugin_command import PluginCommand, Quirks
from ..command.pod_needs import PodNeeds

__all__ = ["command"]

_QUIRKS = {
    "kubelet-restart": "A new kubelet is not noticed: the devices are missing until the plugin is restarted.",
    "renames": "A renamed file is a device under both names.",
    "folders": "A folder made in DIR is a device; files in folders count only if they were there at the start.",
    "exit-status": "A signal ends the process at once, and the socket stays; without a kubelet the exit status is 255, "
    "without DIR it is 2.",
}


def _needs(options: Mapping[str, Any]) -> PodNeeds:
    return PodNeeds(folders=(str(options["directory"]),))


@click.command(
    "gopher",
    cls=PluginCommand,
    needs=_needs,
    quirks=_QUIRKS,
    short_help="lixueduan.com/gopher: one device for each file below a directory.",
    epilog="\b\nExample:\n  mkdir -p /etc/gophers && touch /etc/gophers/g1\n  simkubelet plugin gopher",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default=Path("/etc/gophers"),
    show_default=True,
    metavar="DIR",
    help="The directory on the node whose files are the devices; looked up below --host-root.",
)
@common_options
def command(directory: Path, quirks: Quirks, kubelet_dir: Path, host_root: Path, log_level: str) -> int:
    """Serve lixueduan.com/gopher: every file below DIR, in sub-directories too, is one device, named after the file.

    A new file adds a device, a removed file removes it, and a rename does both. A container that gets devices
    sees their names in the variable Gopher, as in Gopher=g1,g2. PreStartContainer is asked for and prepares nothing.

    When kubelet.sock is made again the plugin exits with status 0, so that its supervisor (a DaemonSet restarts
    whatever the status is) starts it again; a kubelet that cannot be reached within 5 s is an error, status 1. SIGINT
    and SIGTERM stop it: the socket gopher.sock is removed, status 0.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    from dataclasses import replace

    from ..command.launch import launch
    from ..framework import OnKubelet, RestartPolicy
    from ..framework.restart_policy import ORIGINAL
    from .device_plugin import GopherPlugin

    options = CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level)
    policy = replace(RestartPolicy.EXIT, restarts_without_stream=False)
    if quirks is Quirks.ORIGINAL:
        policy = replace(ORIGINAL, on_kubelet=OnKubelet.NOTHING, attempts=1, failed_status=255, signals={})
    return launch(options, policy, lambda: [GopherPlugin(options.on_host(directory), quirks)])
