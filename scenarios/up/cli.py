"""The commands about live clusters: up, kubelet, node.

Only click is imported at load, see `scenarios.cli`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..story.specs import NodeFile, PluginSpec

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")
_FILE = click.Path(dir_okay=False, path_type=Path)


def _name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _NAME.fullmatch(value):
        raise click.BadParameter(f"'{value}': up to 32 small letters, digits and dashes, as in my-cluster")
    return value


_cluster = click.option(
    "--cluster", metavar="NAME", callback=_name, help="The cluster (default: that of KUBECONFIG if several run)."
)


def _profiles(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers for a model of GPU."""
    from fakegpu import profile_names

    return [name for name in profile_names() if name.startswith(incomplete)]


@click.command()
@click.option("--name", default="simkubelet", show_default=True, callback=_name, help="Name of the cluster.")
@click.option("--nodes", type=click.IntRange(1, 1000), default=1, show_default=True, help="Number of nodes.")
@click.option(
    "--profile", shell_complete=_profiles, help="Give each node fake GPUs of this model; `fakegpu profiles` lists them."
)
@click.option("--gpus", type=click.IntRange(1, 1024), help="Number of GPUs on each node (default: 8).")
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="PLUGIN",
    help="Run a bundled plugin, such as nvidia or gopher, or NAME=COMMAND on every node; none for no plugin (default: "
    "nvidia if there are GPUs).",
)
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="IMAGE=PLUGIN",
    help="Run containers of IMAGE as a built-in plugin or as COMMAND, unless their own command names another program. "
    "Images simkubelet/NAME exist for all built-in plugins.",
)
@click.option("--kubelet-version", "kubernetes", metavar="VERSION", help="A Kubernetes minor or patch (default: 1.34).")
@click.option(
    "--runtime",
    type=click.Choice(["book-keeping", "process"]),
    default="book-keeping",
    show_default=True,
    help="How containers run: only recorded, or as processes in a sandbox.",
)
@click.option(
    "--files",
    "files",
    multiple=True,
    metavar="PATH[=FILE]",
    help="Make a file PATH on every node: empty, as for a device, or with what is in FILE; of a folder all its files.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server (default: a free one).")
@click.option("--plain", is_flag=True, help="API server without TLS and token, only for requests to localhost.")
@click.option(
    "--watch",
    "is_watched",
    is_flag=True,
    help="Show what happens as a timeline: drawn on a terminal, else a line for each event.",
)
@click.option(
    "--web",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=0,
    metavar="[PORT]",
    help="Serve a page that shows what happens and injects faults, on PORT (default: a free one); prints its address.",
)
@click.option(
    "--kubeconfig",
    type=_FILE,
    metavar="FILE",
    help="Write the kubeconfig here; FILE must not exist, or be left from a killed cluster.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Make the nodes' folders here, and DIR itself if missing (default: with the kubeconfig; sockets "
    "need short paths).",
)
def up(
    *,
    name: str,
    nodes: int,
    profile: str | None,
    gpus: int | None,
    plugins: tuple[str, ...],
    images: tuple[str, ...],
    kubernetes: str | None,
    runtime: str,
    files: tuple[str, ...],
    port: int,
    plain: bool,
    is_watched: bool,
    web: int | None,
    kubeconfig: Path | None,
    directory: Path | None,
) -> None:
    """Run a simulated cluster, in real time, until Ctrl-C.

    Use it with kubectl and client libraries as any cluster; it prints the path of its kubeconfig. Nodes, fake GPUs
    and plugins are this process and its children, and end with it.

    \b
    Examples:
      simkubelet up --nodes 3 --profile h100-80gb
      simkubelet up --profile t4 --web        look at it in a browser, with buttons for faults
      simkubelet up --plugin 'mine=./my-device-plugin --flag'
      simkubelet up --plugin gopher --files /etc/gophers/g1 --files /etc/my-plugin.yaml=./config.yaml
      simkubelet up --profile t4 --plugin none --image nvcr.io/nvidia/k8s-device-plugin=nvidia
    and in another terminal:
      simkubelet kubelet restart node-1
      simkubelet node reboot node-2

    Exit status: 2 bad input, 3 the machine failed, 130 ended by Ctrl-C, 143 by SIGTERM.
    """  # noqa: D301  # click's mark for lines that stay as they are
    from ..story.crosscheck import is_supported, unsupported
    from ..story.document import installed
    from ..story.specs import DEFAULT_KUBERNETES, GpuSpec, NodeSpec, Runtime
    from .cluster import ClusterSpec, Where, run
    from .plugin_images import BUNDLED_IMAGES

    if gpus is not None and profile is None:
        raise click.UsageError("--gpus needs --profile, the model of the GPUs")
    kubernetes = kubernetes or DEFAULT_KUBERNETES
    if not is_supported(kubernetes, installed().kubernetes):
        raise click.BadParameter(unsupported(kubernetes, installed().kubernetes), param_hint="--kubelet-version")
    own = None if profile is None else GpuSpec(profile=profile, count=gpus or 8)
    wanted = plugins or (("nvidia",) if profile else ())
    named = tuple(_plugin(text) for text in wanted if text != "none")
    if twice := sorted({one.name for one in named if [other.name for other in named].count(one.name) > 1}):
        raise click.BadParameter(f"'{twice[0]}' stands twice", param_hint="--plugin")
    on_nodes = tuple(file for text in files for file in _files(text))
    spec = ClusterSpec(
        name=name,
        nodes=tuple(
            NodeSpec(name=f"node-{n + 1}", kubernetes=kubernetes, gpus=own, runtime=Runtime(runtime), files=on_nodes)
            for n in range(nodes)
        ),
        plugins=named,
        images={**BUNDLED_IMAGES, **dict(map(_image, images))},
        port=port,
        is_plain=plain,
        is_watched=is_watched,
        web_port=web,
    )
    run(spec, Where(directory, kubeconfig))


@click.group()
def kubelet() -> None:
    """Restart, stop or start a kubelet of a running cluster.

    \b
    Example:
      simkubelet kubelet restart node-1
    """  # noqa: D301  # as above


@kubelet.command()
@click.argument("node")
@_cluster
def restart(node: str, cluster: str | None) -> None:
    """Restart NODE's kubelet; containers and plugins continue."""
    _do(cluster, "restartKubelet", node)


@kubelet.command()
@click.argument("node")
@_cluster
def stop(node: str, cluster: str | None) -> None:
    """Stop NODE's kubelet; containers and plugins continue."""
    _do(cluster, "stopKubelet", node)


@kubelet.command()
@click.argument("node")
@_cluster
def start(node: str, cluster: str | None) -> None:
    """Start NODE's kubelet."""
    _do(cluster, "startKubelet", node)


@click.group()
def node() -> None:
    """Reboot a node of a running cluster.

    \b
    Example:
      simkubelet node reboot node-1
    """  # noqa: D301  # as above


@node.command()
@click.argument("node")
@_cluster
def reboot(node: str, cluster: str | None) -> None:
    """Power-cycle NODE: containers and plugins end and start again."""
    _do(cluster, "rebootNode", node)


def _do(cluster: str | None, verb: str, node: str) -> None:
    from .running import ask

    click.echo(ask(cluster, {verb: {"node": node}}))


def _plugin(text: str) -> PluginSpec:
    from ..story.specs import PluginSpec
    from .plugin_images import BUNDLED_IMAGES

    name, separator, command = text.partition("=")
    if not separator:
        bundled = {spec.name: spec for spec in BUNDLED_IMAGES.values()}
        if text not in bundled:
            known = ", ".join(bundled)
            raise click.BadParameter(f"'{text}': choose {known}, none, or give NAME=COMMAND", param_hint="--plugin")
        return bundled[text]
    if not _NAME.fullmatch(name):
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
    try:
        return file.read_text(encoding="utf-8")
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
