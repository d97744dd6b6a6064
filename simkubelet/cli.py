"""The command line: one lazy group, so that a command loads only what it needs, and one place for the last line.

Whatever goes wrong by a user's doing ends as ``error: ...`` on standard error and an exit status, never a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

import click

from ._internal.open_files import too_many
from ._internal.output import Output, one_line, standard_streams
from .model.errors import HostError, InputError, SimkubeletError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from plugin import cli as plugin_commands
    from scenarios import cli as story_commands
    from scenarios.campaign import cli as campaign_commands
    from scenarios.conform import cli as conform_commands
    from scenarios.play import cli as play_commands
    from scenarios.up import cli as cluster_commands
else:
    from ._internal.bundle import LazyModule

    plugin_commands = LazyModule("plugin", "cli")
    story_commands = LazyModule("scenarios", "cli")
    campaign_commands = LazyModule("scenarios", "campaign.cli")
    conform_commands = LazyModule("scenarios", "conform.cli")
    play_commands = LazyModule("scenarios", "play.cli")
    cluster_commands = LazyModule("scenarios", "up.cli")

__all__ = ["commands", "main"]

INTERRUPTED = 130
_SHELLS: Final = ("bash", "zsh", "fish")
_COMPLETE: Final = "_SIMKUBELET_COMPLETE"
_SCENARIO_COMMANDS: dict[str, Callable[[], click.Command]] = {
    "run": lambda: play_commands.run,
    "replay": lambda: play_commands.replay,
    "conform": lambda: conform_commands.conform,
    "campaign": lambda: campaign_commands.campaign,
    "list": lambda: story_commands.list_stories,
    "bugs": lambda: story_commands.bugs,
    "show": lambda: story_commands.show,
    "check": lambda: story_commands.check,
    "schema": lambda: story_commands.schema,
    "doctor": lambda: story_commands.doctor,
    "clean": lambda: story_commands.clean,
    "up": lambda: cluster_commands.up,
    "join": lambda: cluster_commands.join,
    "kubelet": lambda: cluster_commands.kubelet,
    "node": lambda: cluster_commands.node,
}
"""Command -> where the bundled package `scenarios` has it."""


class _Commands(click.Group):
    """The commands of the bundled packages, found when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_SCENARIO_COMMANDS, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _SCENARIO_COMMANDS:
            return _SCENARIO_COMMANDS[cmd_name]()
        return super().get_command(ctx, cmd_name)


def _print_version(context: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if not is_asked:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"simkubelet {version('simkubelet')}")
    except PackageNotFoundError:
        click.echo("simkubelet, from a checkout that is not installed")
    context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it.")
def commands() -> None:
    """Play stories about Kubernetes device plugins on fake GPUs and a simulated kubelet.

    No cluster, no GPU and no root is needed. A story starts nodes and real plugin processes, injects restarts and
    failures, and checks whether the plugin keeps its contract with the kubelet.

    \b
    Start here:
      simkubelet run                          play some built-in stories; --all plays all
      simkubelet list                         see what they are about
      simkubelet bugs --kubelet-version 1.34  see which known bugs a kubelet has
      simkubelet show kubelet-restart         read one
      simkubelet run my-story.yaml            play your own
      simkubelet conform -- ./my-plugin       check your device plugin
      simkubelet campaign --time 10m          play random stories
      simkubelet up --profile h100-80gb       run a cluster for kubectl, until Ctrl-C
      simkubelet plugin nvidia --help         run a device plugin by hand
    """  # noqa: D301  # click's mark for lines that stay as they are
    # No program can be started in a folder that is gone; what fails later does not say so.
    os.getcwd()  # noqa: PTH109  # the error is wanted


def _plugins_or_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What completes the words after ``plugin``: first a name, then files."""
    from click.shell_completion import CompletionItem

    if context.params.get("arguments"):
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(name) for name in plugin_commands.PLUGINS if name.startswith(incomplete)]


@commands.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, shell_complete=_plugins_or_files)
@click.pass_context
def plugin(context: click.Context, /, arguments: tuple[str, ...]) -> None:
    """Run a bundled device plugin, or print the DaemonSet that does."""
    context.exit(plugin_commands.main(arguments, prog_name=context.command_path))


@commands.command()
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
def completion(shell: str | None) -> None:
    """Print the script with which a shell completes commands, options, and names of stories, plugins, checks and nodes.

    Without SHELL it is for the shell that $SHELL names.

    \b
    To have it in every new shell:
      echo 'eval "$(simkubelet completion bash)"' >> ~/.bashrc
      echo 'eval "$(simkubelet completion zsh)"' >> ~/.zshrc
      simkubelet completion fish > ~/.config/fish/completions/simkubelet.fish
    """  # noqa: D301  # as above
    from click.shell_completion import get_completion_class

    shell = shell or os.path.basename(os.environ.get("SHELL", ""))  # noqa: PTH119  # a shell waits for this
    if shell not in _SHELLS:
        raise click.UsageError(f"for which shell? Give one of {', '.join(_SHELLS)}")
    if (kind := get_completion_class(shell)) is not None:
        click.echo(kind(commands, {}, "simkubelet", _COMPLETE).source())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its status.

    Args:
        arguments: The command line without the program's name; that of this process where it is left out.
    """
    with standard_streams() as output:
        status = _run(arguments, output)
        with suppress(SimkubeletError):
            output.flush()
        if output.error is not None:
            # What a story or a plugin has made of it, such as an unknown verdict, counts as well.
            status = status or output.error.exit_status
            _failed(output.error)
        sys.stderr.flush()
    sys.exit(status)


def _run(arguments: Sequence[str] | None, output: Output) -> int:
    try:
        _check_question()
        return int(commands.main(arguments, prog_name="simkubelet", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        help_wanted.show()
        return InputError.exit_status
    except click.UsageError as error:
        return _complain(f"error: {_with_help(error)}", status=InputError.exit_status)
    except click.ClickException as error:
        return _complain(f"error: {error.format_message()}", status=InputError.exit_status)
    except (SimkubeletError, OSError) as error:
        # That of the output is reported in the end, also where click or a story has not passed it on.
        return 0 if error is output.error else _failed(error)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted; everything was ended", status=INTERRUPTED)
    except Exception as error:
        if too_many(error) is not None:
            return _failed(error)
        # A mistake of ours; but what it says may be of others, so it is printed here.
        from traceback import print_exc

        print_exc()
        return 1


def _check_question() -> None:
    """Refuse what click takes for the question of a shell and cannot answer.

    Raises:
        click.UsageError: The variables of the question are not as the scripts of `completion` set them.
    """
    if question := os.environ.get(_COMPLETE):
        shell, _, wanted = question.partition("_")
        has_words = {"COMP_WORDS", "COMP_CWORD"} <= os.environ.keys()
        # That of fish is the word itself.
        is_numbered = has_words and (shell == "fish" or os.environ["COMP_CWORD"].lstrip("-").isdecimal())
        if shell not in _SHELLS or not (wanted == "source" or (wanted == "complete" and is_numbered)):
            raise click.UsageError(f"{_COMPLETE} is set, which is for scripts of completion alone; unset it")


def _failed(error: Exception) -> int:
    if (reason := too_many(error)) is not None:
        return _complain(f"error: {reason}", status=HostError.exit_status)
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return _complain(f"error: {_without_a_place(error)}", status=InputError.exit_status)
    if isinstance(error, OSError):
        return _complain(f"error: {error.filename or 'a system call'}: {error.strerror}", status=HostError.exit_status)
    # An error with lines of its own says all there is to say, as FILE:LINE:COLUMN: for instance.
    status = getattr(error, "exit_status", HostError.exit_status)
    return _complain(*getattr(error, "lines", (f"error: {error}",)), status=status)


def _without_a_place(error: FileNotFoundError) -> str:
    """What to tell the user of an error of `os.getcwd`, or of `tempfile.gettempdir`, which says where it has looked."""
    try:
        os.getcwd()  # noqa: PTH109  # the error is wanted
    except FileNotFoundError:
        return "the working directory is gone; change to another one"
    return f"{error.strerror}; set TMPDIR to a folder that you can write"


def _with_help(error: click.UsageError) -> str:
    message = error.format_message().rstrip(".")
    return f"{message}; see '{error.ctx.command_path} --help'" if error.ctx else message


def _complain(*lines: str, status: int) -> int:
    for line in lines:
        click.echo(one_line(line), err=True)
    return status
