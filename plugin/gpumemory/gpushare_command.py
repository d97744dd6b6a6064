"""``plugin gpushare``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from simkubelet.apis.numbers import Int, IntRange

from ..command.options import CommonOptions, FilePath, common_options
from ..command.plugin_command import PluginCommand
from ..command.pod_needs import PodNeeds, rule
from . import sharing_needs

__all__ = ["command"]


def _needs(options: Mapping[str, Any]) -> PodNeeds:
    nodes = ["nodes", "nodes/proxy"] if options.get("query_kubelet") else ["nodes"]
    return sharing_needs(rule("", nodes, "get"), rule("", ["nodes/status"], "patch"), taint="aliyun.com/gpu-mem")


@click.command(
    "gpushare",
    cls=PluginCommand,
    needs=_needs,
    short_help="aliyun.com/gpu-mem: GPU memory in GiB or MiB.",
    epilog="\b\nExample:\n  NODE_NAME=node-1 KUBECONFIG=~/.kube/config simkubelet plugin gpushare --memory-unit MiB",
)
@click.option("-memory-unit", "--memory-unit", default="GiB", show_default=True, help="GiB or MiB; any other is GiB.")
@click.option("-health-check", "--health-check", is_flag=True, help="Mark GPUs that report an XID as unhealthy.")
@click.option("-query-kubelet", "--query-kubelet", is_flag=True, help="Ask the kubelet for the pending pods first.")
@click.option(
    "-kubelet-address",
    "--kubelet-address",
    default="0.0.0.0",  # noqa: S104  # the original's
    show_default=True,
    help="The kubelet's address.",
)
@click.option(
    "-kubelet-port",
    "--kubelet-port",
    type=IntRange(min=0),
    default=10250,
    show_default=True,
    help="The kubelet's port.",
)
@click.option(
    "-client-cert", "--client-cert", type=FilePath(), default="", metavar="FILE", help="Certificate for the kubelet."
)
@click.option("-client-key", "--client-key", type=FilePath(), default="", metavar="FILE", help="Key for the kubelet.")
@click.option(
    "-token", "--token", default="", metavar="TOKEN", help="Token for the kubelet; the service account's if not given."
)
@click.option(
    "-timeout", "--timeout", type=Int(), default=10, show_default=True, help="Timeout of the kubelet, seconds."
)
@click.option("-mps", "--mps", is_flag=True, help="Has no effect, as in the original.")
@common_options
def command(
    memory_unit: str,
    health_check: bool,
    query_kubelet: bool,
    kubelet_address: str,
    kubelet_port: int,
    client_cert: str,
    client_key: str,
    token: str,
    timeout: int,
    mps: bool,
    kubelet_dir: Path,
    host_root: Path,
    log_level: str,
) -> int:
    """Serve aliyun.com/gpu-mem: as many devices on each GPU as the first one has GiB, or MiB.

    The number of GPUs is written to the node's status as aliyun.com/gpu-count. A scheduler writes into a pod's
    annotations the minor number of its GPU (ALIYUN_COM_GPU_MEM_IDX), the time of the decision
    (ALIYUN_COM_GPU_MEM_ASSUME_TIME), and "false" as ALIYUN_COM_GPU_MEM_ASSIGNED. An Allocate call does not name its
    pod, so the plugin takes the pending pod of the requested size with the earliest time; with a single GPU it needs
    no pod.
    A request is never refused: a container that cannot be served gets NVIDIA_VISIBLE_DEVICES=no-gpu-has-…-to-run.

    NODE_NAME names the node, as the API server of KUBECONFIG or of the pod's service account knows it; without one the
    exit status is 255. Without NVML or GPUs the plugin waits for ever. A new kubelet.sock and SIGHUP restart it, a
    failed registration ends it with status 2, SIGINT and SIGTERM with 0.
    """
    # Imported here: gRPC is slow to load and --help does not need it.
    from .gpushare import GpushareSettings, run

    settings = GpushareSettings(
        memory_unit=memory_unit,
        health_check=health_check,
        kubelet=f"https://{kubelet_address}:{kubelet_port}" if query_kubelet else None,
        client_cert=client_cert,
        client_key=client_key,
        token=token,
        timeout_s=timeout,
        node_name=os.environ.get("NODE_NAME", ""),
    )
    return run(settings, CommonOptions(kubelet_dir=kubelet_dir, host_root=host_root, log_level=log_level))
