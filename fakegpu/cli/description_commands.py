"""Commands about what a machine is: ``fakegpu profiles``, ``cdi``, ``record`` and ``diff``."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import click

from ..errors import DifferenceError, InputError
from ..files.folder import host_errors
from ..machine.containers import DEFAULT_KIND, cdi_spec
from ..machine.machine import Machine
from ..output import print_styled
from . import directory_option
from .numbers import Float

_BEGINNING: Final = 4096


@click.command()
@click.argument("name", required=False)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a profile.")
def profiles(name: str | None, schema: bool) -> None:
    """List the GPU models; with NAME, print the profile of one, to start from.

    \b
    Example:
      fakegpu profiles
      fakegpu profiles l4 >mine.yaml
    """
    from ..profiles.profile import Profile, load_profile, profile_names, profile_text

    if schema:
        click.echo(json.dumps(Profile.model_json_schema(by_alias=True), indent=2))
        return
    if name is not None:
        if sys.stdout.isatty():
            click.echo(profile_text(name), nl=False)
        else:
            # The text as it is, for a profile of the user's own.
            print_styled(profile_text(name))
        return
    for known in profile_names():
        click.echo(f"{known:12} {load_profile(known).description}")


@click.command()
@click.option("--kind", default=DEFAULT_KIND, show_default=True, help="Vendor and class of the devices.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; standard output if not given.")
@directory_option
def cdi(kind: str, output: Path | None, directory: Path | None) -> None:
    """Print a CDI specification, with which container runtimes give this machine's GPUs to containers.

    \b
    Example:
      fakegpu cdi -o /etc/cdi/fakegpu.json
      podman run --device nvidia.com/gpu=0 IMAGE nvidia-smi -L
    """
    text = json.dumps(cdi_spec(Machine.open(directory), kind), indent=2)
    _write(f"{text}\n", output, "a CDI specification", "cdiVersion")


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; standard output if not given.")
@click.option(
    "--duration", type=Float(), default=0.0, help="Seconds of figures over time to record; none if not given."
)
@click.option("--interval", type=Float(), default=1.0, show_default=True, help="Seconds between two samples.")
@click.option("--anonymise", is_flag=True, help="Replace UUIDs, serial numbers and host names; leave processes out.")
def record(output: Path | None, duration: float, interval: float, anonymise: bool) -> None:
    """Record everything that NVML answers on the machine this runs on, a real or a fake one.

    \b
    Example:
      fakegpu record --duration 60 -o recorded.yaml
      fakegpu up --profile ./recorded.yaml
    """
    from .record import record as recorded

    if duration < 0 or interval <= 0:
        raise InputError("--duration must not be negative, --interval must be above 0")
    _write(recorded(duration, interval, anonymise=anonymise).to_yaml(), output, "a recording", "recording:")


@click.command()
@click.argument("profile")
@click.option("--all", "all_calls", is_flag=True, help="Also compare what varies over time or identifies one board.")
def diff(profile: str, all_calls: bool) -> None:
    """Compare a fake machine of PROFILE with this machine, call by call.

    PROFILE is the name of a profile, or the file of a profile or a recording. Exit status 1 if answers differ.

    \b
    Example:
      fakegpu diff ./recorded.yaml
    """
    from .record import ask, ask_fake, differences, fake_of

    real = ask()
    with fake_of(profile, len(real.gpus)) as machine:
        found = list(differences(ask_fake(machine), real, all_calls=all_calls))
    for difference in found:
        click.echo(str(difference))
    if found:
        raise DifferenceError(f"{len(found)} answers differ")


def _write(text: str, output: Path | None, kind: str, mark: str) -> None:
    """Write a text to a file, in place of an empty one or one of its kind, which has the mark near its beginning."""
    if output is None:
        click.echo(text, nl=False)
        return
    with host_errors(output, "choose another file"):
        is_there = output.exists()
        # A pipe or a device is written to, whatever it is.
        if output.is_file():
            with output.open("rb") as file:
                beginning = file.read(_BEGINNING)
            if beginning and mark.encode() not in beginning:
                raise InputError(f"-o: {output} is there already and is not {kind}: remove it or choose another file")
        elif output.is_symlink() and not is_there:
            raise InputError(f"-o: {output} is a link to nothing: remove it or choose another file")
        with output.open("w" if is_there else "x", encoding="utf-8") as file:
            file.write(text)
