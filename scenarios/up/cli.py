"""The commands about live clusters: up, join, kubelet, node.

Only click is imported at load, see `scenarios.cli`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simkubelet.apis.numbers import IntRange
from simkubelet.model.version import DEFAULT

from ..play.cli import duration
from .options import NodeOptions, checked_name, node_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from .running import Cluster

_FILE = click.Path(dir_okay=False, path_type=Path)


def _checked_address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check an address that clients can be given."""
    import ipaddress

    try:
        if not ipaddress.ip_address(value).is_unspecified:
            return value
    except ValueError:
        pass
    raise click.BadParameter(f"'{value}': expected one IP address of this machine, as 172.18.0.1")


def _checked_runtime_config(values: tuple[str, ...], kubernetes: str) -> dict[str, bool]:
    """Read which versions of groups an API server is to serve.

    Raises:
        click.BadParameter: one of this release would not start with them.
    """
    from simkubelet.cluster import Served, runtime_config
    from simkubelet.model.errors import InputError
    from simkubelet.model.version import version

    try:
        config = runtime_config(entry for value in values for entry in value.split(","))
        Served.by(version(kubernetes), config)
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="--runtime-config") from None
    return config


def _running_nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What a shell offers for a node: those of the clusters that run, or of the one that the command line names."""
    from ..play.completion import offered

    chosen = context.params.get("cluster")
    return offered((node for one in _running() if chosen in (None, one.name) for node in one.about.nodes), incomplete)


def _running_clusters(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ..play.completion import offered

    return offered((one.name for one in _running()), incomplete)


def _running() -> Iterable[Cluster]:
    from simkubelet.model.errors import InputError

    from .running import clusters

    try:
        return clusters().values()
    except InputError:
        return ()


_cluster = click.option(
    "--cluster",
    metavar="NAME",
    callback=checked_name,
    shell_complete=_running_clusters,
    help="The cluster (default: that of KUBECONFIG; if that is not set, the only one that runs).",
)


@click.command()
@click.option("--name", default="simkubelet", show_default=True, callback=checked_name, help="Name of the cluster.")
@node_options
@click.option("--port", type=IntRange(0, 65535), default=0, help="Port of the API server (default: a free one).")
@click.option(
    "--runtime-config",
    "runtime_configs",
    multiple=True,
    metavar="KEY=BOOL,...",
    help="Turn versions of API groups on or off, as kube-apiserver's flag does: resource.k8s.io/v1beta1=true or "
    "api/beta=true.",
)
@click.option("--plain", is_flag=True, help="API server without TLS and token, only for requests to localhost.")
@click.option(
    "--event-ttl",
    "event_ttl_s",
    default="1h",
    show_default=True,
    metavar="TIME",
    callback=duration,
    help="How long Events stay, as the API server's option; 0s for without end.",
)
@click.option(
    "--web",
    type=IntRange(0, 65535),
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
def up(
    *,
    name: str,
    nodes: NodeOptions,
    port: int,
    runtime_configs: tuple[str, ...],
    plain: bool,
    event_ttl_s: float,
    web: int | None,
    kubeconfig: Path | None,
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
      simkubelet up --runtime-config resource.k8s.io/v1beta1=true
      simkubelet up --profile t4 --plugin none --image nvcr.io/nvidia/k8s-device-plugin=nvidia
    and in another terminal:
      simkubelet kubelet restart node-1
      simkubelet node reboot node-2

    Exit status: 2 bad input, 3 the machine failed, 130 ended by Ctrl-C, 143 by SIGTERM.
    """  # noqa: D301  # click's mark for lines that stay as they are
    from .cluster import ClusterSpec, Where, run

    kubernetes = nodes.kubernetes or DEFAULT
    spec = ClusterSpec(
        name=name,
        nodes=nodes.specs([f"node-{n + 1}" for n in range(nodes.count)], kubernetes),
        plugins=nodes.plugins(),
        images=nodes.images(),
        port=port,
        runtime_config=_checked_runtime_config(runtime_configs, kubernetes),
        is_plain=plain,
        is_watched=nodes.is_watched,
        event_ttl_s=event_ttl_s,
        web_port=web,
    )
    run(spec, Where(nodes.directory, kubeconfig))


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    envvar="KUBECONFIG",
    required=True,
    show_envvar=True,
    help="The kubeconfig of the cluster to join.",
)
@click.option("--context", metavar="NAME", help="A context of the kubeconfig (default: its current one).")
@click.option(
    "--name-prefix",
    "prefix",
    default="sim",
    show_default=True,
    callback=checked_name,
    help="The nodes are PREFIX-1, PREFIX-2, and so on; each process that joins the cluster has another prefix.",
)
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    metavar="IP",
    callback=_checked_address,
    help="An address of this machine where the API server reaches it, for 'kubectl logs': the kubelets listen there.",
)
@node_options
def join(*, kubeconfig: Path, context: str | None, prefix: str, address: str, nodes: NodeOptions) -> None:
    """Join simulated nodes to any Kubernetes cluster, in real time, until Ctrl-C.

    The nodes register with the API server of a kubeconfig as kubelets do. They run what its scheduler binds to them,
    with the devices of plugins, beside real nodes or as the only ones. While the API server is away they go on.

    Ctrl-C drains the nodes and deletes them: pods are evicted, within a minute. After a kill, the same command takes
    the nodes over, as after a power cut: containers start again.

    'kubectl logs' works where the API server can connect to --address, and where its certificate for kubelets is of
    the kubeconfig's certificate authority. Without such an authority the kubelets do not listen.

    \b
    Examples:
      simkubelet join --kubeconfig ~/.kube/config --nodes 3 --profile h100-80gb
      simkubelet join --name-prefix edge --plugin 'mine=./my-device-plugin --flag'
    and in another terminal:
      kubectl get nodes
      kubectl logs --follow my-pod
      simkubelet kubelet restart sim-1

    Exit status: 2 bad input, 3 the machine or the API server failed, 130 ended by Ctrl-C, 143 by SIGTERM.
    """  # noqa: D301  # as above
    from .joining import JoinSpec
    from .joining import join as keep_joined

    spec = JoinSpec(
        name=prefix,
        kubeconfig=kubeconfig,
        context=context,
        address=address,
        nodes=nodes.specs([f"{prefix}-{n + 1}" for n in range(nodes.count)], nodes.kubernetes or DEFAULT),
        follows_server=nodes.kubernetes is None,
        plugins=nodes.plugins(),
        images=nodes.images(),
        is_watched=nodes.is_watched,
        directory=nodes.directory,
    )
    keep_joined(spec)


@click.group()
def kubelet() -> None:
    """Restart, stop or start a kubelet of a running cluster.

    \b
    Example:
      simkubelet kubelet restart node-1
    """  # noqa: D301  # as above


@kubelet.command()
@click.argument("node", shell_complete=_running_nodes)
@_cluster
def restart(node: str, cluster: str | None) -> None:
    """Restart NODE's kubelet; containers and plugins continue."""
    _do(cluster, "restartKubelet", node)


@kubelet.command()
@click.argument("node", shell_complete=_running_nodes)
@_cluster
def stop(node: str, cluster: str | None) -> None:
    """Stop NODE's kubelet; containers and plugins continue."""
    _do(cluster, "stopKubelet", node)


@kubelet.command()
@click.argument("node", shell_complete=_running_nodes)
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
@click.argument("node", shell_complete=_running_nodes)
@_cluster
def reboot(node: str, cluster: str | None) -> None:
    """Power-cycle NODE: containers and plugins end and start again."""
    _do(cluster, "rebootNode", node)


def _do(cluster: str | None, verb: str, node: str) -> None:
    from .control_socket import ask

    click.echo(ask(cluster, {verb: {"node": node}}))
