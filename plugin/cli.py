"""The command line: one subcommand for each plugin, loaded when it is named."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import click

from .command.process import loading
from .errors import PluginExitError

__all__ = ["PLUGINS", "main"]

PLUGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "amd": ".amd.command",
        "generic": ".generic.command",
        "gopher": ".gopher.command",
        "gpu-memory": ".gpumemory.doslab_command",
        "gpushare": ".gpumemory.gpushare_command",
        "iluvatar": ".iluvatar.command",
        "nvidia": ".nvidia.command",
        "nvidia-mps": ".nvidia.mps.command",
        "stub": ".stub.command",
        "volcano": ".gpumemory.volcano_command",
    }
)
"""Name of a plugin → the module, below this package, whose ``command`` runs it."""

_INTERRUPTED: Final = 130


class _PluginGroup(click.Group):
    """A group that imports a plugin's command only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(PLUGINS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in PLUGINS:
            return None
        command = importlib.import_module(PLUGINS[cmd_name], __package__).command
        return command if isinstance(command, click.Command) else None


@click.group(
    cls=_PluginGroup,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample, with the sockets in ./node:\n  simkubelet plugin gopher --kubelet-dir ./node",
)
@click.pass_context
def plugins(context: click.Context) -> None:
    """Run a Kubernetes device plugin: it serves its devices on a socket and registers with the kubelet."""
    if context.invoked_subcommand is None:
        # Done here because click's own way differs between its versions.
        click.echo(context.get_help(), err=True)
        context.exit(2)


def main(args: Sequence[str] | None = None, *, prog_name: str = "plugin") -> int:
    """Run the plugin that `args` names; None means the arguments of this process.

    A plugin that has begun its work reports its end as its last log line, wrong use is one ``error:`` line; both on
    stderr, never a traceback.

    Returns:
        The exit status: 0 for a clean stop, 2 for wrong use, 1 when the plugin cannot work, 3 when the machine does
        not let it, 130 for an interrupt during the start.
    """
    try:
        with loading():
            status = plugins.main(args=args, prog_name=prog_name, standalone_mode=False)
    except click.ClickException as error:
        return _fail(f"{error.format_message().rstrip('.')}; see `{_asked(error, prog_name)} --help`", 2)
    except PluginExitError as error:
        return _fail(str(error), error.exit_status)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    return status if isinstance(status, int) else 0


def _asked(error: click.ClickException, prog_name: str) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return context.command_path if context is not None else prog_name


def _fail(message: str, status: int) -> int:
    text = " ".join(message.splitlines())
    print(f"error: {text}", file=sys.stderr)
    return status
