"""The commands about stories as files: list, bugs, show, check, schema; and doctor, about the machine for them.

Only click is imported at load: a command imports what it needs, so that every command starts fast.
"""

from __future__ import annotations

from pathlib import Path

import click

from simkubelet.host import one_line

from .play.cli import stories_and_files


@click.command("list")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only stories with this tag, or with one of several.")
def list_stories(tags: tuple[str, ...]) -> None:
    """List the built-in stories, with their tags; those with a topic are named TOPIC/STORY.

    \b
    Examples:
      simkubelet list
      simkubelet list --tag restart    the same as: simkubelet run --tag restart
    """  # noqa: D301  # click's mark for lines that stay as they are
    from .story.stories import builtin, summaries, tagged

    found = summaries()
    if tags:
        chosen = set(tagged(builtin().values(), tags))
        found = {name: found[name] for name, path in builtin().items() if path in chosen}
    width = max(map(len, found), default=0)
    for name, summary in found.items():
        click.echo(one_line(f"{name:<{width}}  {summary.text}  [{', '.join(summary.tags)}]"))


@click.command()
@click.option(
    "--kubelet-version",
    "kubernetes",
    metavar="VERSION",
    help="Only bugs that this Kubernetes minor has, or a patch of one.",
)
@click.option("--search", "text", default="", metavar="TEXT", help="Only bugs with this text: 'reboot', '#124716'.")
def bugs(kubernetes: str | None, text: str) -> None:
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
      simkubelet run bugs/k3-every-registration-leaves-a-connection
    """  # noqa: D301  # click's mark for lines that stay as they are
    from .story.known_bugs import known_bugs

    found = [known for known in known_bugs() if known.mentions(text)]
    if kubernetes is not None:
        found = [known for known in found if known.bug.is_in_kubernetes(kubernetes)]
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
    from simkubelet.model.errors import InputError

    try:
        return path.read_text(encoding="utf-8")
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
    import json

    from .story.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2))


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def doctor(context: click.Context, /, is_json: bool) -> None:
    """Show what this machine can do, and the command that adds what is missing.

    Each line has a state (ok, limited, missing), what is checked and what it is good for. Nothing is installed or
    changed; run the commands that you want yourself.

    Exit status: 0 stories can be played here, 3 something that every story needs is missing.
    """
    from .doctor import document, examine, lines

    found, status = examine()
    click.echo(document(found, status) if is_json else "\n".join(lines(found, status)))
    context.exit(status)
