"""The options that every plugin has, and the reading of options and variables as Go programs do it.

Nothing heavy is imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from .process import LEVELS

__all__ = [
    "DEVICE_PLUGIN_PATH",
    "CommonOptions",
    "EnvironmentOption",
    "FilePath",
    "GoBool",
    "common_options",
    "go_bool_option",
    "is_in_container",
    "on_host",
    "set_places",
]

if TYPE_CHECKING:
    _BoolType = click.ParamType[bool]
else:
    # Generic for type checkers only: before click 8.4 the class cannot be subscripted.
    _BoolType = click.ParamType

_F = TypeVar("_F", bound=Callable[..., object])

DEVICE_PLUGIN_PATH: Final = "/var/lib/kubelet/device-plugins"
"""Where a node has kubelet.sock."""

_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "FALSE", "false", "False"))


class CommonOptions(NamedTuple):
    """Where a plugin finds its kubelet and its node.

    `kubelet_dir` holds ``kubelet.sock`` and the plugin's own socket; `host_root` is where the node's root file system
    is seen.
    """

    kubelet_dir: Path
    host_root: Path
    log_level: str

    def on_host(self, path: Path) -> Path:
        """Where this process sees a path of the node."""
        return on_host(self.host_root, path)


def on_host(host_root: Path, path: Path | str) -> Path:
    """Where a process sees a path of the node whose root is at `host_root`; ``..`` leads above no root."""
    return host_root / _clean(path)[1:]


def _clean(path: Path | str) -> str:
    """An absolute path without ``.`` and ``..``, as seen from the root."""
    return posixpath.normpath("/" + str(path).lstrip("/"))


_PLACES: Final = f"{__name__}.places"


def set_places(context: click.Context, places: Mapping[str, Path]) -> None:
    """Let the plugin be one in a container on a simulated node.

    Args:
        context: The command's.
        places: Folder of the node → where this process sees it; the innermost of a path counts.
    """
    context.meta[_PLACES] = places


def is_in_container(context: click.Context) -> bool:
    """Whether the words and variables are those of a container on a simulated node."""
    return _PLACES in context.meta


class FilePath(click.Path):
    """The path of a file that the plugin opens, or connects to.

    In a container on a simulated node it is a path of the node, as who creates pods there must not reach the files of
    the machine that simulates it.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path at which this process finds the file.

        Raises:
            click.BadParameter: A link leads out of the node.
        """
        given = super().convert(value, param, ctx)
        path = os.fsdecode(given)
        if ctx is None or not is_in_container(ctx) or not path:
            return given
        places: Mapping[str, Path] = ctx.meta[_PLACES]
        there = PurePosixPath(_clean(path))
        place = max((one for one in places if there.is_relative_to(one)), key=len)
        found = places[place] / there.relative_to(place)
        if not found.resolve().is_relative_to(places[place].resolve()):
            self.fail(f"{path} leads out of the node", param, ctx)
        return found if isinstance(given, Path) else str(found)


def common_options(command: _F) -> _F:
    """Give a command the options of `CommonOptions`, as keyword arguments of the same names."""
    for option in (
        click.option(
            "--log-level",
            type=click.Choice(LEVELS),
            default="info",
            show_default=True,
            help="The lowest level that is logged, on stderr.",
        ),
        click.option(
            "--host-root",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            default=Path("/"),
            show_default=True,
            metavar="DIR",
            help="Where the node's root file system is mounted.",
        ),
        click.option(
            "--kubelet-dir",
            type=click.Path(path_type=Path),
            default=Path(DEVICE_PLUGIN_PATH),
            show_default=True,
            metavar="DIR",
            help="The folder of kubelet.sock, where the plugin also makes its own socket.",
        ),
    ):
        command = option(command)
    return command


class EnvironmentOption(click.Option):
    """An option whose environment variable counts as set even when it is empty, as in NVIDIA's plugin."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """The value of the first of its variables that there is, empty included; None when there is none."""
        variables = [self.envvar] if isinstance(self.envvar, str) else self.envvar or ()
        return next((os.environ[name] for name in variables if name in os.environ), None)


class GoBool(_BoolType):
    """A truth value in the spellings of Go's strconv.ParseBool; an empty variable means false."""

    name = "true|false"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Read one value.

        Raises:
            click.BadParameter: the spelling is none of Go's.
        """
        if isinstance(value, bool):
            return value
        from_environment = (
            ctx is not None
            and param is not None
            and ctx.get_parameter_source(param.name or "") is click.core.ParameterSource.ENVIRONMENT
        )
        if value in _TRUE:
            return True
        if value in _FALSE or (from_environment and not value):
            return False
        flag = param.name.replace("_", "-") if param is not None and param.name else ""
        if from_environment and param is not None:
            raise click.UsageError(
                f'could not parse "{value}" as bool value from environment variable "{param.envvar}" for flag {flag}: '
                f'strconv.ParseBool: parsing "{value}": invalid syntax'
            )
        raise click.UsageError(f'invalid boolean value "{value}" for -{flag}: parse error')


def go_bool_option(name: str, variable: str, *, text: str, default: bool | None = None) -> Callable[[_F], _F]:
    """A flag that is given alone or with ``=true`` or ``=false``, and its environment variable.

    Without a default the command gets None where neither is given.
    """
    return click.option(
        name,
        name.removeprefix("--").replace("-", "_"),
        cls=EnvironmentOption,
        type=GoBool(),
        is_flag=False,
        flag_value="true",
        default=default,
        show_default=default is not None,
        envvar=variable,
        show_envvar=True,
        help=text,
    )
