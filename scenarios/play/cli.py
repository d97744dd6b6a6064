"""The commands that play stories, and that show what was played: run and replay.

Only click is imported at load, see `scenarios.cli`.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from simkubelet.apis.numbers import IntRange
from simkubelet.model.version import DEFAULT

from .completion import stories_and_files, tags_of_stories, versions

_FILE = click.Path(dir_okay=False, path_type=Path)


def _plugin_commands(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    commands = {}
    for value in values:
        name, separator, command = value.partition("=")
        try:
            argv = tuple(shlex.split(command))
        except ValueError as error:
            raise click.BadParameter(f"'{value}': {error}") from error
        if not (name and separator and argv):
            raise click.BadParameter(f"'{value}' is not of the form NAME=COMMAND, for example 'nvidia=./plugin --flag'")
        commands[name] = argv
    return commands


def duration(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Read the value of an option that is a time, in seconds.

    Raises:
        click.BadParameter: It is none.
    """
    if value is None:
        return None
    from ..story.part import parse_duration

    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _settings(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for value in values:
        name, separator, setting = value.partition("=")
        if not (name and separator):
            raise click.BadParameter(f"'{value}' is not of the form NAME=VALUE, for example 'count=4'")
        settings[name] = setting
    return settings


@click.command()
@click.argument("stories", nargs=-1, metavar="[STORY|FILE|DIR|GLOB]...", shell_complete=stories_and_files)
@click.option("--all", "every", is_flag=True, help="Play all built-in stories; about a minute on two cores.")
@click.option(
    "-n",
    "count",
    type=IntRange(1, 64),
    help="Stories at a time (default: eight for each core, but not more than 16; one on a cluster).",
)
@click.option(
    "--backend",
    type=click.Choice(["sim", "kind", "join", "both"]),
    default="sim",
    show_default=True,
    help="Where to play them: on the simulator, on a kind cluster, on simulated nodes that join another cluster, or on "
    "the simulator and a cluster to compare the two.",
)
@click.option(
    "--cluster",
    default="simkubelet",
    show_default=True,
    metavar="NAME",
    help="The kind cluster; if it does not exist, it is created and deleted at the end.",
)
@click.option("--image", "node_image", metavar="IMAGE", help="The node image of a new cluster (default: kind's own).")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The cluster to join, with --backend join, or with --backend both in place of a kind cluster.",
)
@click.option(
    "--plugin",
    "plugin_commands",
    multiple=True,
    metavar="NAME=COMMAND",
    callback=_plugin_commands,
    help="Run COMMAND in place of the stories' plugin NAME, with the args of the story.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_settings,
    help="Set a parameter of the stories; `simkubelet show STORY` prints those that it declares.",
)
@click.option(
    "--kubelet-version",
    "kubernetes",
    metavar="VERSION",
    shell_complete=versions,
    help=f"Follow this Kubernetes minor, or a patch of one, on every node (default: the story's, else {DEFAULT}).",
)
@click.option(
    "-k",
    "expression",
    metavar="EXPRESSION",
    help="Play only stories whose name matches: words with and, or, not and parentheses, as for pytest. "
    "Without names of stories, it selects from all built-in ones.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    shell_complete=tags_of_stories,
    help="Play only stories with this tag, or with one of several; `simkubelet list` shows them. Without names of "
    "stories, it selects from all built-in ones.",
)
@click.option("--repeat", type=IntRange(1, 10_000), default=1, metavar="N", help="Play each story N times.")
@click.option(
    "--timeout",
    "timeout_s",
    callback=duration,
    metavar="DURATION",
    help="End a story whose steps take longer in real time, such as 90s or 5m; its verdict is UNKNOWN.",
)
@click.option("-x", "--exitfirst", "stops_at_failure", is_flag=True, help="End the run with the first failure.")
@click.option("--no-skips", "forbids_skips", is_flag=True, help="Fail if a story is skipped, and list those that were.")
@click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Print only failures and the totals.")
@click.option(
    "--pause-on-failure",
    "is_pausing",
    is_flag=True,
    help="Keep the nodes of a failed story, with sockets and plugins, until Enter; plays one story at a time.",
)
@click.option(
    "--watch",
    "is_watched",
    is_flag=True,
    help="Show the timeline of each story as it is played: drawn on a terminal, else a line for each event; plays one "
    "story at a time.",
)
@click.option(
    "--compare",
    type=click.Path(exists=True, path_type=Path),
    metavar="TRACE|DIR",
    help="Compare each story with the recording that `--backend both --trace` made of it on a cluster.",
)
@click.option("--junit", type=_FILE, metavar="FILE", help="Write the verdicts as JUnit XML, whatever ends the run.")
@click.option("--trace", type=_FILE, metavar="FILE", help="Write the trace as JSON lines.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write DIR/index.html: the verdicts and a timeline of each story, for a browser.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Make the nodes' folders here, and DIR itself if missing (default: $TMPDIR if set, else /dev/shm if it has "
    "room, else /tmp; sockets need short paths).",
)
@click.option("--keep", is_flag=True, help="Keep the nodes' folders, or the cluster, for inspection.")
@click.pass_context
def run(
    context: click.Context,
    /,
    stories: tuple[str, ...],
    every: bool,
    count: int | None,
    backend: str,
    cluster: str,
    node_image: str | None,
    kubeconfig: Path | None,
    plugin_commands: dict[str, tuple[str, ...]],
    settings: dict[str, str],
    kubernetes: str | None,
    expression: str | None,
    tags: tuple[str, ...],
    repeat: int,
    timeout_s: float | None,
    stops_at_failure: bool,
    forbids_skips: bool,
    is_quiet: bool,
    is_pausing: bool,
    is_watched: bool,
    compare: Path | None,
    junit: Path | None,
    trace: Path | None,
    report: Path | None,
    directory: Path | None,
    keep: bool,
) -> None:
    """Play stories and print their verdicts.

    Give the names of built-in stories, files, folders of files, or patterns of these in quotes. Without any, some
    built-in stories of each topic are played, which takes seconds; --all plays all of them. A story that names several
    Kubernetes versions is played on each of them; with --kubelet-version it is played once, on that version, and
    skipped if it is only about others. The logs of a failed story stay below --dir, and its report names the files.

    \b
    Examples:
      simkubelet run                                  some stories of each topic
      simkubelet run --all --junit results.xml        all built-in stories
      simkubelet run --all --report results/          and a page to look at: results/index.html
      simkubelet run kubelet-restart --kubelet-version 1.28
      simkubelet run bugs/                            all stories of a topic
      simkubelet run -k 'restart and not amd'         built-in stories by name
      simkubelet run --tag mig --tag sharing          built-in stories by what they are about
      simkubelet run 'bugs/k1*'                       those that fit a pattern
      simkubelet run my-stories/ -n 1                 your own, one after the other
      simkubelet run kubelet-restart --watch          see who does what, as it happens
      simkubelet run seats.yaml --pause-on-failure    look at the nodes of a failed story
      simkubelet run flaky.yaml --repeat 50 -x        until it fails, at most 50 times
      simkubelet run kubelet-restart --backend both   compare with a real cluster
      simkubelet run --all --backend join --kubeconfig ~/.kube/config
      simkubelet run kubelet-restart --compare t.jsonl   compare with a recording of one
      simkubelet run kubelet-restart --plugin 'nvidia=nvidia-device-plugin --pass-device-specs'
      simkubelet run kubelet-restart --plugin nvidia=./my-plugin --set resource=example.com/seat --set count=4

    In a GitHub workflow, failures are also printed as annotations of the stories' lines.

    A step that cannot be done, such as starting a plugin that runs, ends its story as ERROR; the others go on.

    Exit status: 0 all passed or skipped; else 1 a story failed, or one was skipped with --no-skips; else 2 a story has
    an error, or the input cannot be used and nothing was played; else 3 the machine failed; 130 interrupted with
    Ctrl-C, 143 with SIGTERM, 141 when nobody reads the output any more.
    """  # noqa: D301  # click's mark for lines that stay as they are
    from ..story.stories import builtin, chosen, find, selected, tagged
    from .job import BackendName, Options
    from .pause import until_enter
    from .run import Outputs
    from .run import run as play_run
    from .runner import no_look

    one_at_a_time = "--pause-on-failure" if is_pausing else "--watch" if is_watched else None
    if one_at_a_time and count not in (None, 1):
        raise click.UsageError(f"{one_at_a_time} plays one story at a time; leave -n out")
    if compare is not None and backend != BackendName.SIM:
        raise click.UsageError("--compare is for the simulator; leave it out, or --backend")
    if backend == BackendName.JOIN and kubeconfig is None:
        raise click.UsageError("--backend join needs the cluster: name its --kubeconfig")
    if kubeconfig is not None and backend not in (BackendName.JOIN, BackendName.BOTH):
        raise click.UsageError("--kubeconfig is for --backend join and both; leave it out, or add one of these")
    if every and stories:
        raise click.UsageError("--all plays the built-in stories; leave it out, or the names of stories")
    known = list(builtin().values())
    is_selecting = bool(every or expression or tags)
    files = find(stories) if stories else known if is_selecting else chosen()
    if tags:
        files = tagged(files, tags)
    if expression:
        files = selected(files, expression)
    some = f"these were {len(files)} of {len(known)} built-in stories; --all plays all of them"
    options = Options(
        backend=BackendName(backend),
        kubernetes=kubernetes,
        plugin_commands=plugin_commands,
        settings=settings,
        directory=directory,
        keep=keep,
        cluster=cluster,
        node_image=node_image,
        kubeconfig=kubeconfig,
        repeat=repeat,
        timeout_s=timeout_s,
        at_failure=until_enter() if is_pausing else no_look,
        stops_at_failure=stops_at_failure,
        compare=compare,
    )
    hint = "" if stories or is_selecting else some
    count = 1 if one_at_a_time else count
    outputs = Outputs(junit, trace, report)
    shown = {"is_quiet": is_quiet, "is_watched": is_watched, "forbids_skips": forbids_skips}
    context.exit(play_run(files, options, count, outputs, **shown, hint=hint))


@click.command()
@click.argument("trace", type=_FILE, metavar="TRACE")
@click.argument("stories", nargs=-1, metavar="[STORY]...")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write DIR/index.html with the timelines, for a browser, and print nothing.",
)
def replay(trace: Path, stories: tuple[str, ...], report: Path | None) -> None:
    """Show a trace that `run --trace` wrote: who did what to whom, and when.

    Prints a line for each entry: node time, real time, what it is between, and what happened. Names of stories choose
    some of the trace. Nothing is played.

    \b
    Examples:
      simkubelet run kubelet-restart --trace t.jsonl
      simkubelet replay t.jsonl                    print it
      simkubelet replay t.jsonl --report results/  make a page of it: results/index.html
    """  # noqa: D301  # click's mark for lines that stay as they are
    from .console import console
    from .recording import read_trace
    from .replay import print_timelines, write_replay

    recorded = read_trace(trace, stories)
    if report is not None:
        write_replay(report, trace, recorded)
    else:
        print_timelines(recorded, console())
