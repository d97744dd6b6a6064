"""``plugin stub``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..command.options import CommonOptions, common_options

if TYPE_CHECKING:
    from ..framework import Device

__all__ = ["command"]


_EPILOG: Final = """\b
Commands, one a line; all keys but "command", "rpc" and "devices" of a list may be left out:
  {"command": "register", "resource": "example.com/a", "endpoint": "a.sock", "version": "v1beta1", "times": 2}
  {"command": "list", "devices": [{"id": "gpu-0", "health": "Unhealthy", "numa": [0]}]}
  {"command": "answer", "rpc": "Allocate", "error": "no", "skip": 1, "times": 2}
  {"command": "answer", "rpc": "ListAndWatch", "after_s": 0.2, "devices": [{"id": "gpu-1"}]}
  {"command": "answer", "rpc": "PreStartContainer", "never": true}   or "empty": true
  {"command": "endStream"}
  {"command": "stopServer"}

\b
Lines that come back; docs/line-protocol.md describes them all:
  {"ready": true}                    the first: commands are read
  {"done": true}                     to a command, or {"error": "what is wrong with it"}
  {"called": "Allocate", "devices": ["gpu-0"]}
  {"registered": "example.com/gpu", "endpoint": "stub.sock", "error": ""}

\b
Example:
  simkubelet plugin stub --resource example.com/gpu --device gpu-0 --device gpu-1,numa=1
"""


@click.command(
    "stub",
    short_help="Any resource: devices given by options, controlled through standard input.",
    epilog=_EPILOG,
)
@click.option("--resource", default="example.com/device", show_default=True, metavar="NAME", help="The resource.")
@click.option("--socket", "socket_name", default="stub.sock", show_default=True, metavar="NAME", help="The socket.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="ID[,health=Unhealthy][,numa=N]...",
    help="A device of the first list; repeatable.",
)
@click.option("--pre-start", is_flag=True, help="Ask for PreStartContainer.")
@click.option("--preferred-allocation", is_flag=True, help="Offer GetPreferredAllocation.")
@click.option(
    "--registers",
    type=click.Choice(["always", "once", "never"]),
    default="always",
    show_default=True,
    help="Register at the start and for each new kubelet, at the start only, or on command only.",
)
@common_options
def command(
    resource: str,
    socket_name: str,
    devices: tuple[str, ...],
    pre_start: bool,
    preferred_allocation: bool,
    registers: str,
    kubelet_dir: Path,
    host_root: Path,
    log_level: str,
) -> int:
    """Serve the resource that the options describe, and execute commands from standard input.

    Each line of standard input is a command as JSON (register again, list other devices, change an answer, end the
    stream, stop serving), each line of standard output an answer or a report. A container that gets devices sees
    their ids in the variable STUB_DEVICES. SIGINT and SIGTERM stop it: the socket is removed, status 0.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    from ..framework import PluginOptions, ResourceName
    from .behaviour import Behaviour, Registers
    from .control import launch

    behaviour = Behaviour(
        ResourceName(resource),
        socket_name,
        PluginOptions(pre_start, preferred_allocation),
        tuple(_device(text) for text in devices),
        Registers(registers),
    )
    return launch(behaviour, CommonOptions(kubelet_dir, host_root, log_level))


def _device(text: str) -> Device:
    from ..framework import Device, DeviceID, Health

    device_id, *settings = text.split(",")
    health, numa = Health.HEALTHY, []
    for setting in settings:
        key, _, value = setting.partition("=")
        if key == "health" and value in list(Health):
            health = Health(value)
        elif key == "numa" and value.isdecimal():
            numa.append(int(value))
        else:
            raise click.BadParameter(
                f"'{setting}' is neither health=Healthy|Unhealthy nor numa=NUMBER", param_hint="--device"
            )
    return Device(DeviceID(device_id), health, tuple(numa))
