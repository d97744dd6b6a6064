"""The command ``simkubelet campaign``.

Only click is imported at load, see `scenarios.cli`.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from simkubelet.apis.numbers import IntRange

from ..play.cli import duration

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--seed",
    type=IntRange(0, 2**31 - 1),
    metavar="S",
    help="What the stories are made of: the same seed, the same stories (default: that of the file, else a new one).",
)
@click.option(
    "--stories",
    "most",
    type=IntRange(1),
    metavar="N",
    help="How many stories the campaign has, those of earlier runs among them (default: no end).",
)
@click.option(
    "--time",
    "time_s",
    callback=duration,
    metavar="DURATION",
    help="End after this time, such as 90s or 1h; what a worker has begun is played to its end.",
)
@click.option(
    "-n",
    "count",
    default="auto",
    show_default=True,
    metavar="N|auto",
    help="Processes that play, each five stories at a time; auto is three for each core, but not more than six.",
)
@click.option(
    "--scheduler", metavar="ADDRESS", help="Play on the workers of this dask scheduler, such as tcp://host:8786."
)
@click.option(
    "--results",
    type=_FILE,
    default="campaign.sqlite",
    show_default=True,
    metavar="FILE",
    help="The campaign's file: a new one begins a campaign, an old one is gone on with.",
)
@click.option(
    "--findings",
    type=click.Path(file_okay=False, path_type=Path),
    default="campaign-findings",
    show_default=True,
    metavar="DIR",
    help="Write the smallest story of each finding here.",
)
@click.option(
    "--report",
    "page",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a page with findings and plots to DIR/index.html.",
)
@click.pass_context
def campaign(
    context: click.Context,
    /,
    seed: int | None,
    most: int | None,
    time_s: float | None,
    count: str,
    scheduler: str | None,
    results: Path,
    findings: Path,
    page: Path | None,
) -> None:
    """Play random stories, thousands of them, and find the smallest story of each failure.

    A story has one or two nodes, stub plugins, pods, and some steps: restarts and reboots, plugins that crash, refuse,
    list other devices or register twice, pods that come and go, broken checkpoints, a full disk, a silent container
    runtime. After each step all that can be seen of the nodes must agree: no device in two pods, the published amounts
    as the plugins have listed them, checkpoint and PodResources as the pods hold them. At the end of most stories
    everything is healed, and the nodes must work again. A story must also leave no task, no
    process, no open file and no folder behind.

    Failures with the same reason are one finding. Its first story is made as small as it still fails and written to the
    folder of findings; `simkubelet run FILE` repeats it.

    Ctrl-C and --time end a campaign at any moment; the same command goes on with it, also after the machine went down.
    No story is lost and none counts twice.

    \b
    Examples:
      simkubelet campaign --time 1h                     as many stories as an hour has room for
      simkubelet campaign --seed 7 --stories 1000       always the same thousand
      simkubelet campaign --report page/                go on until Ctrl-C, then write page/index.html
      simkubelet run campaign-findings/seed-7-story-12.yaml
      simkubelet campaign --scheduler tcp://host:8786   on the workers of a dask scheduler

    Exit status: 0 nothing was found; 1 there are findings, those of earlier runs among them; 2 the input cannot be
    used; 3 the machine failed, such as a killed worker; 130 after Ctrl-C, 141 when nobody reads the output any more.
    All end with what was found so far.
    """  # noqa: D301  # click's mark for lines that stay as they are
    from .command import Settings, run_campaign

    context.exit(run_campaign(Settings(seed, most, time_s, _processes(count), scheduler, results, findings, page)))


def _processes(count: str) -> int | None:
    """How many processes ``-n`` names; None for as many as the machine has cores.

    Raises:
        click.BadParameter: It names none.
    """
    if count == "auto":
        return None
    if re.fullmatch("[0-9]{1,4}", count) and 1 <= int(count) <= 1024:
        return int(count)
    raise click.BadParameter(f"'{count}' is neither auto nor a number from 1 to 1024", param_hint="-n")
