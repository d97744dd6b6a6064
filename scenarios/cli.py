"""The commands about stories as files: list, bugs, show, check, schema; and doctor and clean, about the machine.

Only click is imported at load: a command imports what it needs, so that every command starts fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from simkubelet.host import one_line

from .play.completion import stories_and_files, tags_of_stories, versions

_output_option: Final = click.option(
    "-o",
    "--output",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or for programs.",
)


@click.command("list")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Only stories with this tag, or with one of several.",
    shell_complete=tags_of_stories,
)
@_output_option
def list_stories(tags: tuple[str, ...], output: str) -> None:
    """List the built-in stories, with their tags; those with a topic are named TOPIC/STORY.

    \b
    Examples:
      simkubelet list
      simkubelet list --tag restart    the same as: simkubelet run --tag restart
      simkubelet list -o json          with their files
    """  # noqa: D301  # click's mark for lines that stay as they are
    from .story.stories import builtin, summaries, tagged

    found = summaries()
    if tags:
        chosen = set(tagged(builtin().values(), tags))
        found = {name: found[name] for name, path in builtin().items() if path in chosen}
    if output == "json":
        files = builtin()
        _print_json(
            [
                {"name": name, "summary": summary.text, "tags": summary.tags, "file": str(files[name])}
                for name, summary in found.items()
            ]
        )
        return
    width = max(map(len, found), default=0)
    for name, summary in found.items():
        click.echo(one_line(f"{name:<{width}}  {summary.text}  [{', '.join(summary.tags)}]"))


def _print_json(document: object) -> None:
    import json

    click.echo(json.dumps(document, indent=2))


@click.command()
@click.option(
    "--kubelet-version",
    "kubernetes",
    metavar="VERSION",
    shell_complete=versions,
    help="Only bugs that this Kubernetes minor has, or a patch of one.",
)
@click.option("--search", "text", default="", metavar="TEXT", help="Only bugs with this text: 'reboot', '#124716'.")
@_output_option
def bugs(kubernetes: str | None, text: str, output: str) -> None:
    """List the known bugs that built-in stories reproduce.

    Each line has the bug's id, what has it, the affected versions, the story, and what happens. Ids that begin with K
    are bugs of the kubelet, with D of claims of devices in Kubernetes, with P of device plugins; those with R were
    found with the kubelet's own device manager. Versions of Kubernetes are a condition as in stories: '<1.26.5 ||
    >=1.27, <1.27.2', or 'all'.

    Play a bug by the name of its story; most are played before and after their fix.

    \b
    Examples:
      simkubelet bugs --kubelet-version 1.34
      simkubelet bugs --search checkpoint
      simkubelet bugs -o json
      simkubelet run bugs/k3-every-registration-leaves-a-connection
    """  # noqa: D301  # click's mark for lines that stay as they are
    from .story.known_bugs import known_bugs

    found = [known for known in known_bugs() if known.mentions(text)]
    if kubernetes is not None:
        found = [known for known in found if known.bug.is_in_kubernetes(kubernetes)]
    if output == "json":
        _print_json(
            [
                known.bug.model_dump(mode="json", by_alias=True)
                | {"story": known.story, "title": known.title, "description": known.text}
                for known in found
            ]
        )
        return
    if not found:
        click.echo("no such bug is known; 'simkubelet bugs' lists all that are", err=True)
    rows = [(known.bug.id, known.bug.component, known.bug.affected, known.story) for known in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for known, row in zip(found, rows, strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(one_line("  ".join((*cells, known.title))))


@click.command()
@click.argument("story", shell_complete=stories_and_files)
def show(story: str) -> None:
    """Print a story's YAML, to read it or to start your own from it."""
    from .play.console import console
    from .story.stories import find

    out = console()
    for path in find([story]):
        text = _read(path)
        if out.is_terminal:
            from rich.syntax import Syntax

            out.print(Syntax(text, "yaml", background_color="default", word_wrap=True))
        else:
            # The file as it is, for one of the user's own.
            out.file.write(text)


def _read(path: Path) -> str:
    from simkubelet.apis.documents import read_file
    from simkubelet.model.errors import InputError

    try:
        return read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=stories_and_files)
@click.pass_context
def check(context: click.Context, /, files: tuple[str, ...]) -> None:
    """Check stories without playing them.

    Prints `ok: FILE`, or each problem as FILE:LINE:COLUMN: what is wrong; then the exit status is 2. Also takes
    folders and names of built-in stories.
    """
    from .story.document import DocumentError, load
    from .story.stories import find

    status = 0
    for path in find(files):
        try:
            load(path)
        except DocumentError as error:
            status = error.exit_status
            for line in error.lines:
                click.echo(one_line(line), err=True)
        else:
            click.echo(one_line(f"ok: {path}"))
    context.exit(status)


@click.command()
def schema() -> None:
    """Print the JSON Schema of stories, for editors.

    \b
    Example, for editors with the YAML language server:
      simkubelet schema > story.schema.json
      # then start a story with:
      # yaml-language-server: $schema=story.schema.json
    """  # noqa: D301  # click's mark for lines that stay as they are
    from .story.schema import json_schema

    _print_json(json_schema())


@click.command()
@_output_option
@click.pass_context
def doctor(context: click.Context, /, output: str) -> None:
    """Show what this machine can do, and the command that adds what is missing.

    Each line has a state (ok, limited, missing), what is checked and what it is good for. Nothing is installed or
    changed; run the commands that you want yourself.

    Exit status: 0 stories can be played here, 3 something that every story needs is missing.
    """
    from .doctor import document, examine, lines

    found, status = examine()
    click.echo(document(found, status) if output == "json" else "\n".join(lines(found, status)))
    context.exit(status)


@click.command()
@click.option(
    "--dir",
    "directories",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Look in this folder as well, which was the --dir of other commands. May be given several times.",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@click.pass_context
def clean(context: click.Context, /, directories: tuple[Path, ...], dry_run: bool) -> None:
    """Remove folders of simkubelet that no process uses, and list them.

    These are the logs of failed stories, what --keep kept, and what killed commands have left: the folders of stories,
    clusters and campaigns. They are in the temporary folder ($TMPDIR or /tmp), in /dev/shm, and in
    $XDG_RUNTIME_DIR/simkubelet or /tmp/simkubelet-UID. Without this command, all but the newest ten
    go from the temporary folder as new ones are made, and a killed cluster's folder when its name is used again.
    The cgroups of killed commands are removed, too; the next command that starts a plugin or container does so as well.

    A folder is removed only if simkubelet has marked it, it is yours, and no running process has it locked. Links are
    not followed.

    \b
    Not removed:
      fake machines of 'fakegpu up', which no process has to run for: 'fakegpu down' removes one
      clusters of kind that were kept: 'kind delete cluster'
      nodes of a killed 'simkubelet join' in their cluster: the same command takes them over
      files that an option names, such as reports

    \b
    Examples:
      simkubelet clean --dry-run
      simkubelet clean --dir ./nodes    also what 'simkubelet run --dir ./nodes' has left

    Exit status: 0 nothing is left, 3 a folder or a cgroup cannot be removed.
    """  # noqa: D301  # as above
    import tempfile

    from simkubelet.host import remove_leftovers
    from simkubelet.model.errors import HostError

    from .backends.world.folders import SHARED_MEMORY, left_folders
    from .up.running import left_clusters

    places = dict.fromkeys(place.resolve() for place in (Path(tempfile.gettempdir()), SHARED_MEMORY, *directories))
    status, done = 0, "would remove" if dry_run else "removed"
    for left in (*map(left_folders, places), left_clusters()):
        for folder in left:
            if not dry_run:
                try:
                    folder.remove()
                except HostError as error:
                    status = error.exit_status
                    click.echo(f"error: {error}", err=True)
                    continue
            click.echo(f"{done} {folder.path}")
    for cgroup in remove_leftovers(is_trial=dry_run):
        click.echo(f"{done} {cgroup}")
    for cgroup in () if dry_run else remove_leftovers(is_trial=True):
        status = HostError.exit_status
        click.echo(f"error: {cgroup}: cannot be removed, a process in it does not end; end it", err=True)
    context.exit(status)
