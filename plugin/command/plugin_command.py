"""A plugin's command beyond its options: the quirks of its original, and ``--manifest``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import click

from .options import DEVICE_PLUGIN_PATH, set_places
from .pod_needs import PodNeeds

__all__ = ["PluginCommand", "Quirks"]

_MANIFEST: Final = "--manifest"
_CONTAINER: Final = "--container"
"""The word before the last one, if the plugin is a container on a simulated node; the last one is its variables in
JSON, and the words before are ``--kubelet-dir DIR --host-root DIR``."""


class Quirks(StrEnum):
    """Whose behaviour a plugin has where its original and the article about that disagree."""

    ARTICLE = "article"
    """What the article promises."""
    ORIGINAL = "original"
    """What the original does."""


class PluginCommand(click.Command):
    """A plugin's command, ``@click.command(NAME, cls=PluginCommand, needs=..., quirks=...)``.

    Args:
        needs: What its pod needs, from the values of its options by parameter name; may raise `UsageError`.
        quirks: Name of a quirk → what the original does, as a sentence. A plugin with quirks has the option
            ``--quirks``, which its function takes as the keyword argument ``quirks``, a `Quirks`.
        variables: Those that it reads besides its options', as far as a container on a simulated node may set them.
    """

    def __init__(
        self,
        *args: Any,
        needs: Callable[[Mapping[str, Any]], PodNeeds],
        quirks: Mapping[str, str] | None = None,
        variables: tuple[str, ...] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.needs = needs
        self.variables = variables
        self.quirks: Mapping[str, str] = quirks or {}
        if self.quirks:
            self.params.append(_quirks_option())
        self.params.append(
            click.Option([_MANIFEST], is_flag=True, help="Print the DaemonSet with these options, and exit.")
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what is given, for `invoke`.

        The words of a container on a simulated node are those of who creates pods there, and this process has the
        rights of the simulator's user. So of the container's variables it takes only those that the plugin reads, and
        none that the loader, Python or a library obeys; files are the node's (`FilePath`); and ``--kubelet-dir`` and
        ``--host-root`` are given behind the container's words, so that they win.
        """
        if args[-2:-1] == [_CONTAINER]:
            args, variables = args[:-2], json.loads(args[-1])
            kubelet_dir, root = Path(args[-3]), Path(args[-1])
            set_places(ctx, {DEVICE_PLUGIN_PATH: kubelet_dir, "/": root})
            os.environ.update({name: text for name, text in variables.items() if name in self.readable})
        ctx.meta[_MANIFEST] = [argument for argument in args if argument != _MANIFEST]
        return super().parse_args(ctx, args)

    @property
    def readable(self) -> set[str]:
        """The variables of a container that the plugin reads."""
        own = [option.envvar or () for option in self.params]
        return {name for names in own for name in ([names] if isinstance(names, str) else names)} | {*self.variables}

    def invoke(self, ctx: click.Context) -> Any:
        """Run the plugin, or print its manifest where that is asked for.

        Raises:
            UsageError: the manifest cannot be made of what is given.
            click.UsageError: an option has no place in a manifest.
        """
        if not ctx.params.pop("manifest"):
            return super().invoke(ctx)
        # Imported here: YAML is slow to load and no plugin needs it to run.
        from .manifest import manifest

        if ctx.get_parameter_source("host_root") is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError("--host-root makes no sense with --manifest, a pod sees its node; leave it out", ctx)
        needs = self.needs(ctx.params)
        click.echo(manifest(self.name or "", ctx.meta[_MANIFEST], ctx.params["kubelet_dir"], needs), nl=False)
        return 0

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the quirks."""
        super().format_options(ctx, formatter)
        if self.quirks:
            with formatter.section("With --quirks original"):
                formatter.write_dl(list(self.quirks.items()))


def _quirks_option() -> click.Option:
    return click.Option(
        ["--quirks"],
        type=click.Choice([quirks.value for quirks in Quirks]),
        default=Quirks.ARTICLE.value,
        show_default=True,
        callback=lambda _context, _option, value: Quirks(value),
        help="Which behaviour to follow where the original differs from its documentation; the quirks are below.",
    )
