"""The options that every plugin has, and the reading of options and variables as Go programs do it.

Nothing heavy is imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from .process import LEVELS

__all__ = ["CommonOptions", "EnvironmentOption", "GoBool", "common_options", "go_bool_option"]

if TYPE_CHECKING:
    _BoolType = click.ParamType[bool]
else:
    # Generic for type checkers only: before click 8.4 the class cannot be subscripted.
    _BoolType = click.ParamType

_F = TypeVar("_F", bound=Callable[..., object])

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
        return self.host_root / path.relative_to(path.anchor)


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
            default=Path("/var/lib/kubelet/device-plugins"),
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
