"""Commands for devices of other vendors: ``fakegpu amd``, ``iluvatar`` and ``files``."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import click

from ..errors import InputError
from ..files.folder import claimed, default_directory, host_errors
from . import DEEPEST, directory_option
from .numbers import Int


@click.group()
def amd() -> None:
    """AMD GPUs as files in a folder: sysfs, KFD and device nodes, and the exporter's health service.

    \b
    Example:
      fakegpu amd up --profile mi300x --compute cpx --dir /tmp/node-1
      unshare -m sh -c 'mount --rbind /tmp/node-1/sys /sys && exec k8s-device-plugin -pulse 5'
    """


@amd.command("up")
@click.option("--profile", default="mi300x", show_default=True, help="GPU model, see `fakegpu amd profiles`.")
@click.option("-n", "--count", type=Int(), help="Number of GPUs; one for each slot of the server if not given.")
@click.option("--compute", default="spx", show_default=True, help="Compute partition mode.")
@click.option("--memory", default="nps1", show_default=True, help="Memory partition mode.")
@directory_option
def amd_up(profile: str, count: int | None, compute: str, memory: str, directory: Path | None) -> None:
    """Make AMD GPUs. Existing ones in the folder are replaced; `fakegpu down` removes the folder.

    \b
    Example:
      fakegpu amd up --profile mi210 -n 4
    """
    from ..vendors.amd.machine import amd_files, write_amd
    from ..vendors.amd.model import load_amd_profile

    model = load_amd_profile(profile)
    root = directory or default_directory()
    number = len(model.server.slots) if count is None else count
    with host_errors(root), claimed(root, replaced=amd_files(root)):
        devices = write_amd(root, model, number, compute=compute, memory=memory)
    parts = f" in {len(devices)} partitions" if len(devices) != number else ""
    click.echo(f"{number} x {model.identity.name}{parts} in {root}")


@amd.command("profiles")
def amd_profiles() -> None:
    """List the AMD GPU models."""
    from ..vendors.amd.model import amd_profile_names, load_amd_profile

    for name in amd_profile_names():
        click.echo(f"{name:12} {load_amd_profile(name).description}")


@amd.command("list")
@directory_option
def amd_list(directory: Path | None) -> None:
    """Show the devices and what the exporter reports of them."""
    from ..vendors.amd.machine import health

    for name, state in health(directory or default_directory()).items():
        click.echo(f"{name:20} {state}")


@amd.command("fail")
@click.argument("device")
@directory_option
def amd_fail(device: str, directory: Path | None) -> None:
    """Let the exporter report that DEVICE is unhealthy.

    \b
    Example:
      fakegpu amd fail 0000:05:00.0
    """
    _set_health(device, directory, healthy=False)


@amd.command("heal")
@click.argument("device")
@directory_option
def amd_heal(device: str, directory: Path | None) -> None:
    """Let the exporter report that DEVICE is healthy again."""
    _set_health(device, directory, healthy=True)


def _set_health(device: str, directory: Path | None, *, healthy: bool) -> None:
    from ..vendors.amd.machine import health, set_health

    root = directory or default_directory()
    if device not in health(root):
        raise InputError(f"no AMD device '{device}' in {root}; `fakegpu amd list` names them")
    set_health(root, device, healthy=healthy)


@amd.command("exporter")
@click.option("--socket", type=click.Path(path_type=Path), help="Socket path; the plugin's default if not given.")
@directory_option
def amd_exporter(socket: Path | None, directory: Path | None) -> None:
    """Serve the health of the devices as AMD's metrics exporter does, until interrupted.

    \b
    Example:
      fakegpu amd exporter --socket ./exporter.socket
    """
    from ..vendors.amd.exporter import SOCKET, exporter

    place = SOCKET if socket is None else socket
    with exporter(directory or default_directory(), place) as server:
        click.echo(f"serving {place}; Ctrl-C ends it")
        server.wait_for_termination()


@click.command()
@click.option("-n", "--count", type=Int(), default=8, show_default=True, help="Number of chips.")
@click.option("--chips-per-board", type=Int(), default=1, show_default=True, help="1 or 2.")
@directory_option
def iluvatar(count: int, chips_per_board: int, directory: Path | None) -> None:
    """Make the device nodes and PCI folders of Iluvatar chips; `fakegpu down` removes them with the folder.

    \b
    Example:
      fakegpu iluvatar -n 4 --dir /tmp/node-1
    """
    from ..vendors.iluvatar import iluvatar_files, write_iluvatar

    root = directory or default_directory()
    with host_errors(root), claimed(root, replaced=iluvatar_files(root)):
        write_iluvatar(root, count, chips_per_board)
    click.echo(f"{count} chips in {root}")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@directory_option
def files(paths: tuple[str, ...], directory: Path | None) -> None:
    """Make plain files below the folder, for plugins whose devices are files.

    \b
    Example:
      fakegpu files etc/gophers/g1 etc/gophers/g2 --dir /tmp/node-1
    """
    root = directory or default_directory()
    tops = {path.lstrip("/").partition("/")[0] for path in paths}
    with host_errors(root), claimed(root, tops):
        write_plain(root, paths)


def write_plain(root: Path, paths: Iterable[str]) -> None:
    """Make empty files below ``root``; those that are there stay as they are.

    Args:
        root: what stands for ``/``.
        paths: ``etc/gophers/g1`` or ``/etc/gophers/g1``.

    Raises:
        InputError: a path that names no file, or leaves ``root``.
    """
    places = [_place(root, path) for path in paths]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _place(root: Path, path: str) -> Path:
    parts = PurePosixPath(path.lstrip("/")).parts
    if not parts or ".." in parts or path.endswith("/"):
        raise InputError(f"'{path}' is no file below {root}: write etc/gophers/g1")
    if len(parts) > DEEPEST:
        raise InputError(f"a path of {len(parts)} names; choose one of at most {DEEPEST}")
    return root.joinpath(*parts)
