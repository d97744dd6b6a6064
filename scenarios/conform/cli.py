"""The command ``simkubelet conform``.

Only click is imported at load, see `scenarios.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from simkubelet.apis.numbers import IntRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click.shell_completion import CompletionItem

    from .checks import Check
    from .report import Report
    from .tested_plugin import Subject

_FILE = click.Path(dir_okay=False, path_type=Path)


def _checks(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What a shell offers for a check: the groups, and the ids."""
    from ..play.completion import offered
    from .checks import all_checks

    found = [check.id for check in all_checks()]
    return offered((*(name.partition("/")[0] for name in found), *found), incomplete)


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--list", "is_list", is_flag=True, help="List the checks, and start nothing.")
@click.option("--profile", type=_FILE, metavar="FILE", help="What the plugin claims and needs, see below.")
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    shell_complete=_checks,
    help="Only these checks, and those they need: a group, an id, or either with *.",
)
@click.option("--skip", multiple=True, metavar="PATTERN", shell_complete=_checks, help="Not these checks.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write the verdicts as JUnit XML.")
@click.option(
    "--report",
    "page",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a page with a timeline of each check to DIR/index.html.",
)
@click.option("-n", "count", type=IntRange(1, 64), help="Checks at a time (default: eight for each core, at most 16).")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Make the nodes' folders here (default: $TMPDIR if set, else /dev/shm if it has room, else /tmp; sockets need "
    "short paths).",
)
@click.pass_context
def conform(
    context: click.Context,
    /,
    command: tuple[str, ...],
    is_list: bool,
    profile: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    junit: Path | None,
    page: Path | None,
    count: int | None,
    directory: Path | None,
) -> None:
    """Check a device plugin, in any language, against what kubelets do; no cluster is needed.

    COMMAND starts the plugin as its container would. It sees the node's paths (/var/lib/kubelet/device-plugins) and
    the files of this machine. It is started once to see what it registers and lists, and then for each check on a node
    of its own: the kubelet restarts, breaks the stream, hangs; the plugin is stopped, or runs twice.

    \b
    Examples:
      simkubelet conform -- ./my-plugin --flag
      simkubelet conform --only registration --only 'kubelet-restart/*' -- ./my-plugin
      simkubelet conform --profile nvidia.yaml --junit conform.xml -- nvidia-device-plugin
      simkubelet conform --report results/ -- ./my-plugin    and a page to look at: results/index.html

    \b
    A profile says what cannot be discovered; each key may be left out:
      resource: nvidia.com/gpu            # which, where the plugin has several
      count: 2                            # devices of it
      gpus: {profile: t4, count: 2}       # fake GPUs of the node; amd, iluvatar, files as in stories
      env: {DP_DISABLE_HEALTHCHECKS: ""}
      break: {fail: {gpu: 0, xid: 79}}    # a step of a story that breaks a device
      heal: {heal: {gpu: 0}}              # or of this machine: {runCommand: {command: [./heal.sh]}}
      breaks: 1                           # how many devices become unhealthy
      annotations: {example.com/gpu: "0"} # of each pod, as the plugin's own scheduler writes them
      many: {count: 10000, env: {N: "10000"}}  # settings with which it lists many devices

    A check that does not apply is skipped, with the reason; one that the machine did not let finish is unknown. A
    warning is a rule that the plugin breaks and that no pod notices. docs/conformance.md explains each check.

    Exit status: 0 no check failed, 1 one failed or the plugin does not register, 2 bad input, 3 the machine failed,
    130 interrupted with Ctrl-C, 143 with SIGTERM, 141 when nobody reads the output any more.
    """  # noqa: D301  # click's mark for lines that stay as they are
    from ..play.console import console
    from .checks import all_checks, selected
    from .profile import read_profile
    from .report import Report, print_list
    from .tested_plugin import Subject

    chosen = selected(all_checks(), only, skip)
    out = console()
    if is_list:
        print_list(out, chosen)
        return
    subject = Subject(_program(command), read_profile(profile), profile_path=profile)

    def applying(found: Subject) -> Sequence[Check]:
        return selected(all_checks(), only, skip, lambda check: not found.reason_to_skip(check.spec.needs))

    context.exit(_judge(subject, applying, count, directory, Report(out, chosen, junit, page)))


def _judge(
    subject: Subject,
    checks_for: Callable[[Subject], Sequence[Check]],
    count: int | None,
    directory: Path | None,
    report: Report,
) -> int:
    """Discover the plugin, play the checks for it and report; the exit status.

    Raises:
        SimkubeletError: The user or an error ended the run; what was done has been reported.
    """
    from simkubelet.model.errors import SimkubeletError

    from ..play.interruption import run_interruptibly
    from .conform import conform as play_checks
    from .conform import exit_status
    from .tested_plugin import discovered

    found = run_interruptibly(discovered(subject, directory))
    checks = checks_for(found)
    report.show_subject(found, checks)
    try:
        run_interruptibly(play_checks(found, checks, count, directory, report.add))
    except SimkubeletError:
        if report.results:
            report.finish()
        raise
    report.finish()
    return exit_status(report.results)


def _program(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command of the plugin, with the whole path of its program.

    Raises:
        UsageError: None is given.
        InputError: There is no such program.
    """
    import shutil

    from simkubelet.model.errors import InputError

    if not command:
        raise click.UsageError("no plugin; add -- and the command that starts it, for example: -- ./my-plugin --flag")
    program = shutil.which(command[0])
    if program is None:
        raise InputError(f"no program '{command[0]}'; give its path or put its folder on PATH")
    return (str(Path(program).absolute()), *command[1:])
