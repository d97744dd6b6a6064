"""``plugin stub``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from simkubelet.apis.numbers import FloatRange, IntRange

from ..command.options import CommonOptions, common_options

if TYPE_CHECKING:
    from ..framework import Device, DeviceID
    from .behaviour import Behaviour

__all__ = ["behaviour_of", "command"]


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
@click.option(
    "--socket",
    "socket_name",
    metavar="NAME",
    help="The socket, in which {second} is the time of its making.  [default: a name that no other instance has]",
)
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
    type=click.Choice(["until-connected", "always", "once", "never", "found", "found-again"]),
    default="until-connected",
    show_default=True,
    help="Register at the start and for each new kubelet, and again after a refusal or a lost stream; or without that "
    "(always), at the start only, or on command only; or have the socket in plugins_registry, where the kubelet finds "
    "it (found), and make it again after a refusal (found-again).",
)
@click.option(
    "--watches",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder below --host-root where it waits for a new kubelet.sock.  [default: that of --kubelet-dir]",
)
@click.option(
    "--on-lost-stream",
    type=click.Choice(["ignore", "exit", "hang"]),
    default="ignore",
    show_default=True,
    help="When a stream of lists ends: do what --registers says, exit with status 1, or go on and never again notice a "
    "kubelet.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="ID=PATH",
    help="The file below --host-root that a device is; repeatable.",
)
@click.option(
    "--looks",
    type=click.Choice(["always", "at-start"]),
    default="always",
    show_default=True,
    help="A device is unhealthy while its file is missing, or not listed where it is missing at the start.",
)
@click.option(
    "--empty",
    "empties",
    multiple=True,
    metavar="NAME",
    help="A further resource, with an empty list; repeatable.",
)
@click.option("--topology", "has_topology", is_flag=True, help="Give devices without NUMA nodes an empty topology.")
@click.option("--whole-path", is_flag=True, help="Name the socket to the kubelet by its absolute path.")
@click.option(
    "--resend",
    "resend_s",
    type=FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Send the list again in this interval, changed or not.",
)
@click.option("--port", type=IntRange(1, 65535), metavar="NUMBER", help="Listen on this TCP port, too.")
@click.option("--fails", metavar="TEXT", help="Log this error and then that it ends, and exit with status 1.")
@common_options
def command(kubelet_dir: Path, host_root: Path, log_level: str, **described: Any) -> int:
    """Serve the resource that the options describe, and execute commands from standard input.

    Each line of standard input is a command as JSON (register again, list other devices, change an answer, end the
    stream, stop serving), each line of standard output an answer or a report. A container that gets devices sees
    their ids in the variable STUB_DEVICES. SIGINT and SIGTERM stop it: the socket is removed, status 0.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    from .control import launch

    behaviour = behaviour_of(host_root=host_root, **described)
    return launch(behaviour, CommonOptions(kubelet_dir, host_root, log_level))


def behaviour_of(
    *,
    resource: str,
    socket_name: str | None,
    devices: tuple[str, ...],
    pre_start: bool,
    preferred_allocation: bool,
    registers: str,
    watches: Path | None,
    on_lost_stream: str,
    files: tuple[str, ...],
    looks: str,
    empties: tuple[str, ...],
    has_topology: bool,
    whole_path: bool,
    resend_s: float | None,
    port: int | None,
    fails: str | None,
    host_root: Path,
    **others: object,
) -> Behaviour:
    """What the options of the command describe, by the command's own names for them; `others` say nothing about it."""
    from ..framework import PluginOptions, ResourceName
    from ..framework.server import own_socket_name
    from .behaviour import Behaviour, Looks, OnLostStream, Registers

    _check_texts("--resource", [resource])
    _check_texts("--socket", [socket_name or ""])
    _check_texts("--device", devices)
    _check_texts("--empty", empties)
    return Behaviour(
        ResourceName(resource),
        socket_name or own_socket_name(resource),
        PluginOptions(pre_start, preferred_allocation),
        tuple(_device(text) for text in devices),
        Registers(registers),
        OnLostStream(on_lost_stream),
        None if watches is None else host_root / str(watches).lstrip("/"),
        dict(_file(text, host_root) for text in files),
        Looks(looks),
        empties=tuple(ResourceName(name) for name in empties),
        has_topology=has_topology,
        names_whole_path=whole_path,
        resend_s=resend_s,
        port=port,
        failure=fails,
    )


def _check_texts(option: str, texts: Sequence[str]) -> None:
    """Refuse what no message can carry: bytes that are not UTF-8."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise click.BadParameter(f"'{text}' is no text in UTF-8", param_hint=option) from None


def _file(text: str, host_root: Path) -> tuple[DeviceID, Path]:
    device_id, separator, path = text.partition("=")
    if not separator or not path.startswith("/"):
        raise click.BadParameter(f"'{text}' is not ID=PATH with an absolute path", param_hint="--file")
    return cast("DeviceID", device_id), host_root / path.lstrip("/")


def _device(text: str) -> Device:
    from ..framework import Device, DeviceID, Health

    device_id, *settings = text.split(",")
    health, numa = Health.HEALTHY, []
    for setting in settings:
        key, _, value = setting.partition("=")
        if key == "health" and value in list(Health):
            health = Health(value)
        elif key == "numa" and re.fullmatch("[0-9]{1,18}", value):
            numa.append(int(value))
        else:
            raise click.BadParameter(
                f"'{setting}' is neither health=Healthy|Unhealthy nor numa=NUMBER", param_hint="--device"
            )
    return Device(DeviceID(device_id), health, tuple(numa))
