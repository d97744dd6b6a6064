"""``plugin iluvatar``."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..command.options import CommonOptions, FilePath, common_options, go_bool_option
from ..command.plugin_command import PluginCommand, Quirks
from ..command.pod_needs import PodNeeds

__all__ = ["command"]


def _needs(options: Mapping[str, Any]) -> PodNeeds:
    config = ("--config-file", options["config_file"])
    return PodNeeds(folders=("/sys", "/dev"), config=config, is_privileged=True, taint="iluvatar.com/gpu")


@click.command(
    "iluvatar",
    cls=PluginCommand,
    needs=_needs,
    quirks={
        "host-numbers": "Device files keep the node's numbers, unless a container holds all devices of the node.",
        "hangs-unregistered": "When registration fails the plugin does not exit, does not retry and ignores SIGTERM.",
    },
    short_help="iluvatar.com/gpu: boards and chips of Iluvatar, as their plugin v4.4.0 serves them.",
    epilog="\b\nExample:\n  fakegpu iluvatar -n 4 --dir ./machine && echo 'resourceName: iluvatar.com/gpu' >ix-config\n"
    "  simkubelet plugin iluvatar --kubelet-dir ./node --host-root ./machine --config-file ix-config",
)
@click.option(
    "--config-file",
    type=FilePath(path_type=Path),
    default=Path("/ixconfig/ix-config"),
    show_default=True,
    metavar="FILE",
    help="resourceName, flags and sharing.timeSlicing.replicas, in YAML; without the file the plugin does not start.",
)
@go_bool_option("--splitboard", "SPLIT_BOARD", text="Offer each chip of a board as a device.")
@go_bool_option("--usevolcano", "USE_VOLCANO", text="Only false is supported here.")
@go_bool_option("--reset_gpu", "RESET_GPU", text="Only false is supported here.")
@common_options
def command(
    config_file: Path,
    splitboard: bool | None,
    usevolcano: bool | None,
    reset_gpu: bool | None,
    quirks: Quirks,
    kubelet_dir: Path,
    host_root: Path,
    log_level: str,
) -> int:
    """Serve iluvatar.com/gpu: every board of Iluvatar chips, or every chip.

    Device ids are the UUIDs of boards' first chips, with the suffix ::0, ::1 and so on if replicas are configured.
    A container gets the device files of its chips as /dev/iluvatar0, /dev/iluvatar1 and so on, and /dev/itrctl, and
    sees the chips in IX_VISIBLE_DEVICES and its devices in IX_REPLICA_DEVICES. Chips and their health are checked
    every five seconds, and a device recovers when its errors are gone.

    Instead of using libixml.so the plugin reads the files of `fakegpu iluvatar`: for each chip a folder
    /sys/bus/pci/devices/<address>/ixml with uuid, name, minor, board, position and health, below --host-root.

    The plugin stops serving when kubelet.sock is removed and starts again when it appears; it ends with status 1 when
    registration fails. SIGHUP does nothing; SIGINT, SIGTERM and SIGQUIT end it with status 0.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    from dataclasses import replace

    from ..command.launch import launch
    from ..framework import OnSignal
    from ..framework.restart_policy import ORIGINAL
    from .config import load_config
    from .device_plugin import IluvatarPlugin
    from .ixml import Ixml

    flags = {"splitboard": splitboard, "usevolcano": usevolcano, "reset_gpu": reset_gpu}
    config = load_config(config_file, {name: value for name, value in flags.items() if value is not None})
    options = CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level)
    ixml, control = Ixml(options.on_host(Path("/sys"))), options.on_host(Path("/dev/itrctl"))
    stops = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGQUIT), OnSignal.STOP)
    policy = replace(
        ORIGINAL, stops_without_kubelet=True, attempts=1, signals={**stops, signal.SIGHUP: OnSignal.NOTHING}
    )
    status = launch(options, policy, lambda: [IluvatarPlugin(ixml, config, control, quirks)])
    if status and quirks is Quirks.ORIGINAL:
        _hang()
    return status


def _hang() -> None:
    """Do nothing for ever, whatever comes but SIGKILL.

    Source: Deep-Spark/ix-device-plugin, pkg/dpm/server.go (v4.4.0): ``stop`` hands a token to a handler of
    ListAndWatch, and there is none.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        signal.pause()
