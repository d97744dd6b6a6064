"""Options of commands that run nodes: what the nodes are made of, and which plugins run on them.

Only click is imported at load, see `scenarios.cli`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from simkubelet.apis.numbers import IntRange
from simkubelet.model.version import DEFAULT

from ..play.completion import versions

if TYPE_CHECKING:
    from ..story.specs import NodeFile, NodeSpec, PluginSpec

_STRATEGY: Final = "DEVICE_LIST_STRATEGY"
NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")


def checked_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check a name that a user gives."""
    if value is not None and not NAME.fullmatch(value):
        raise click.BadParameter(f"'{value}': up to 32 small letters, digits and dashes, as in my-cluster")
    return value


def _profiles(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers for a model of GPU."""
    from fakegpu import profile_names

    return [name for name in profile_names() if name.startswith(incomplete)]


MOST_NODES: Final = 1000
"""Of a cluster."""
_OPTIONS: Final = (
    click.option("--nodes", type=IntRange(1, MOST_NODES), default=1, show_default=True, help="Number of nodes."),
    click.option(
        "--profile",
        shell_complete=_profiles,
        help="Give each node fake GPUs of this model; `fakegpu profiles` lists them.",
    ),
    click.option("--gpus", type=IntRange(1, 1024), help="Number of GPUs on each node (default: 8)."),
    click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="PLUGIN",
        help="Run a bundled plugin, such as nvidia, gopher or stub (8 devices without hardware), or NAME=COMMAND on "
        "every node; none for no plugin (default: nvidia if there are GPUs).",
    ),
    click.option(
        "--image",
        "images",
        multiple=True,
        metavar="IMAGE=PLUGIN",
        help="Run containers of IMAGE as a built-in plugin or as COMMAND, unless their own command names another "
        "program. Images simkubelet/NAME exist for all built-in plugins.",
    ),
    click.option(
        "--kubelet-version",
        "kubernetes",
        metavar="VERSION",
        shell_complete=versions,
        help=f"A Kubernetes minor or patch (default: that of the cluster joined; of a new cluster {DEFAULT}).",
    ),
    click.option(
        "--feature-gates",
        "gates",
        multiple=True,
        metavar="GATE=BOOL,...",
        help="Turn feature gates on or off, as a kubelet's flag does; those of a new cluster's control plane, too.",
    ),
    click.option(
        "--runtime",
        type=click.Choice(["book-keeping", "process"]),
        default="book-keeping",
        show_default=True,
        help="How containers run: only recorded, or as processes in a sandbox.",
    ),
    click.option(
        "--files",
        "files",
        multiple=True,
        metavar="PATH[=FILE]",
        help="Make a file PATH on every node: empty, as for a device, or with what is in FILE; of a folder all its "
        "files.",
    ),
    click.option(
        "--watch",
        "is_watched",
        is_flag=True,
        help="Show what happens as a timeline: drawn on a terminal, else a line for each event.",
    ),
    click.option(
        "--dir",
        "directory",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Make the nodes' folders here, and DIR itself if missing (default: a folder of the user's; sockets "
        "need short paths).",
    ),
)


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a user said of nodes.

    Attributes:
        count: how many there are.
        kubernetes: the version of their kubelets; None where the user named none.
        is_watched: the terminal shows what happens.
        directory: where the nodes' folders are made; None for a place of the cluster's own.
    """

    count: int
    kubernetes: str | None
    is_watched: bool
    directory: Path | None
    _profile: str | None
    _gpus: int | None
    _plugins: tuple[str, ...]
    _images: tuple[str, ...]
    _gates: tuple[str, ...]
    _runtime: str
    _files: tuple[str, ...]

    def specs(self, names: Sequence[str], kubernetes: str) -> tuple[NodeSpec, ...]:
        """Return what nodes of these names are made of.

        Raises:
            click.UsageError: an option cannot be used.
        """
        from ..story.crosscheck import is_supported, unsupported
        from ..story.document import installed
        from ..story.specs import GpuSpec, NodeSpec, Runtime

        if self._gpus is not None and self._profile is None:
            raise click.UsageError("--gpus needs --profile, the model of the GPUs")
        if not is_supported(kubernetes, installed().kubernetes):
            raise click.BadParameter(unsupported(kubernetes, installed().kubernetes), param_hint="--kubelet-version")
        own = None if self._profile is None else GpuSpec(profile=self._profile, count=self._gpus or 8)
        made = tuple(file for text in self._files for file in _files(text))
        runtime, gates = Runtime(self._runtime), self._feature_gates(kubernetes)
        specs = (NodeSpec(name=name, kubernetes=kubernetes, gpus=own, runtime=runtime, files=made) for name in names)
        return tuple(spec.model_copy(update={"feature_gates": gates}) for spec in specs)

    def _feature_gates(self, kubernetes: str) -> Mapping[str, bool]:
        from simkubelet.kubelet import read_feature_gates
        from simkubelet.model.errors import InputError
        from simkubelet.model.version import version

        try:
            return read_feature_gates(
                (entry for value in self._gates for entry in value.split(",")), version(kubernetes)
            )
        except InputError as error:
            raise click.BadParameter(str(error), param_hint="--feature-gates") from None

    def plugins(self) -> tuple[PluginSpec, ...]:
        """Return the plugins that run on every node.

        Raises:
            click.UsageError: one cannot be run, or two have one name.
        """
        wanted = self._plugins or (("nvidia",) if self._profile else ())
        named = tuple(_plugin(text) for text in wanted if text != "none")
        if twice := sorted({one.name for one in named if [other.name for other in named].count(one.name) > 1}):
            raise click.BadParameter(f"'{twice[0]}' is given twice", param_hint="--plugin")
        return tuple(map(self._with_gpus_in_containers, named))

    def images(self) -> Mapping[str, PluginSpec]:
        """Return image -> the plugin that its containers are.

        Raises:
            click.UsageError: a plugin cannot be run.
        """
        from .plugin_images import BUNDLED_IMAGES

        named = {**BUNDLED_IMAGES, **dict(map(_image, self._images))}
        return {image: self._with_gpus_in_containers(plugin) for image, plugin in named.items()}

    def _with_gpus_in_containers(self, plugin: PluginSpec) -> PluginSpec:
        """A plugin of NVIDIA GPUs that has containers that run see theirs, as its strategy ``envvar`` needs a hook.

        Every kubelet here knows annotations, and the node has the specification.
        """
        from ..story.specs import Runtime

        if plugin.builtin != "nvidia" or self._runtime != Runtime.PROCESS:
            return plugin
        return plugin.model_copy(update={"args": ("--cdi-spec-dir=",), "env": {_STRATEGY: "cdi-annotations"}})


def node_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of nodes, as its argument `nodes`."""

    @wraps(command)
    def with_nodes(
        *,
        nodes: int,
        profile: str | None,
        gpus: int | None,
        plugins: tuple[str, ...],
        images: tuple[str, ...],
        kubernetes: str | None,
        gates: tuple[str, ...],
        runtime: str,
        files: tuple[str, ...],
        is_watched: bool,
        directory: Path | None,
        **others: object,
    ) -> None:
        made_of = (profile, gpus, plugins, images, gates, runtime, files)
        command(nodes=NodeOptions(nodes, kubernetes, is_watched, directory, *made_of), **others)

    given: Callable[..., None] = with_nodes
    for option in reversed(_OPTIONS):
        given = option(given)
    return given


def _plugin(text: str) -> PluginSpec:
    from ..story.specs import PluginSpec
    from .plugin_images import BUNDLED_IMAGES, STUB

    name, separator, command = text.partition("=")
    if not separator:
        bundled = {spec.name: spec for spec in (*BUNDLED_IMAGES.values(), STUB)}
        if text not in bundled:
            known = ", ".join(bundled)
            raise click.BadParameter(f"'{text}': choose {known}, none, or give NAME=COMMAND", param_hint="--plugin")
        return bundled[text]
    if not NAME.fullmatch(name):
        raise click.BadParameter(f"'{name}': up to 32 small letters, digits and dashes", param_hint="--plugin")
    return PluginSpec(name=name, command=_argv(command, "--plugin"))


def _image(text: str) -> tuple[str, PluginSpec]:
    from ..story.specs import PluginSpec
    from .plugin_images import BUNDLED_IMAGES

    image, separator, plugin = text.partition("=")
    if not image or not separator:
        example = "nvcr.io/nvidia/k8s-device-plugin=nvidia"
        raise click.BadParameter(f"'{text}' is not of the form IMAGE=PLUGIN, as in {example}", param_hint="--image")
    if plugin in {spec.name for spec in BUNDLED_IMAGES.values()}:
        return image, _plugin(plugin)
    return image, PluginSpec(name="image", command=_argv(plugin, "--image"))


def _files(text: str) -> Iterator[NodeFile]:
    """The files that an option means: one, or all below a folder."""
    path, separator, source = text.partition("=")
    place = Path(source)
    if not separator:
        yield _file(path, "")
    elif place.is_dir():
        for file in sorted(one for one in place.rglob("*") if one.is_file()):
            yield _file(f"{path}/{file.relative_to(place).as_posix()}", _content(file))
    else:
        yield _file(path, _content(place))


def _file(path: str, content: str) -> NodeFile:
    from pydantic import ValidationError

    from ..story.specs import NodeFile

    try:
        return NodeFile(path=path, content=content)
    except ValidationError:
        message = f"'{path}': expected an absolute path on the node without '..'"
        raise click.BadParameter(message, param_hint="--files") from None


def _content(file: Path) -> str:
    from simkubelet.apis.documents import read_file

    try:
        return read_file(file).decode()
    except UnicodeDecodeError:
        raise click.BadParameter(f"'{file}' is no text in UTF-8", param_hint="--files") from None
    except OSError as error:
        raise click.BadParameter(f"'{file}' cannot be read: {error.strerror}", param_hint="--files") from None


def _argv(command: str, option: str) -> tuple[str, ...]:
    import shutil

    from ..story.specs import runnable_words

    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise click.BadParameter(f"'{command}': {error}", param_hint=option) from error
    if not argv or shutil.which(runnable_words(argv)[0]) is None:
        missing = argv[0] if argv else command
        raise click.BadParameter(f"no program '{missing}'; give its path or put its folder on PATH", param_hint=option)
    return argv
