"""The cluster of a run: made or found once, with the plugin image in it, for one story after the other."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from simkubelet.apis.yaml_text import yaml_text
from simkubelet.model.errors import HostError, InputError

from ...story.model import Scenario
from ..world.folders import new_folder
from .backend import KindBackend
from .docker import output_of
from .image import ImageSource, PluginImage, image_source
from .kubelets import wordy
from .members import KindMembers
from .node import KindNode

_CREATE_WITHIN_S: Final = 400.0

# A kubelet publishes every ten seconds by default. With one control plane nobody else can lead; after a reboot its
# controllers would wait until their own old leases are over. kind v0.33 writes v1beta4 from Kubernetes 1.36 on, whose
# lists of arguments a patch replaces whole, v1beta3 before, and obeys the patches of its version.
_CONFIG: Final = f"""\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
kubeadmConfigPatches:
  - |
    kind: KubeletConfiguration
    apiVersion: kubelet.config.k8s.io/v1beta1
    logging: {json.dumps(wordy({}))}
    nodeStatusUpdateFrequency: 1s
  - |
    kind: ClusterConfiguration
    apiVersion: kubeadm.k8s.io/v1beta3
    controllerManager: {{extraArgs: {{leader-elect: "false"}}}}
    scheduler: {{extraArgs: {{leader-elect: "false"}}}}
  - |
    kind: ClusterConfiguration
    apiVersion: kubeadm.k8s.io/v1beta4
    controllerManager:
      extraArgs:
        - {{name: enable-hostpath-provisioner, value: "true"}}
        - {{name: leader-elect, value: "false"}}
    scheduler: {{extraArgs: [{{name: leader-elect, value: "false"}}]}}
"""
_ON_CGROUP_V1: Final = """\
  - |
    kind: KubeletConfiguration
    apiVersion: kubelet.config.k8s.io/v1beta1
    failCgroupV1: false
"""
"""Without it a kubelet of 1.35 and newer does not start on a machine with cgroup v1; an older one warns of the key."""
_NODES: Final = """\
nodes:
  - role: control-plane
"""
_WORKER: Final = "  - role: worker\n"


def with_keys_in_files(kubeconfig: str, folder: Path) -> str:
    """Return a kubeconfig with its certificates and keys in files of a folder; kr8s would leave such files behind."""
    config = yaml.safe_load(kubeconfig)
    for about in [one["cluster"] for one in config["clusters"]] + [one["user"] for one in config["users"]]:
        for key in [key for key in about if key.endswith("-data")]:
            file = folder / key.removesuffix("-data")
            file.write_bytes(base64.b64decode(about.pop(key)))
            about[file.name] = str(file)
    return yaml_text(config)


def _config(nodes: int, cgroups: str) -> str:
    """Return what kind reads of a new cluster, whose machine has this version of cgroups, 1 or 2."""
    return _CONFIG + (_ON_CGROUP_V1 if cgroups == "1" else "") + _NODES + _WORKER * (nodes - 1)


class KindCluster:
    """One cluster by its name; `enter` finds or makes it, `leave` deletes it where it was made here.

    Args:
        name: Its name for kind.
        node_image: Of its nodes, where it has to be made; kind's default where it is None.
        keep: Do not delete it.
        count: How many nodes it has, where it has to be made.
    """

    def __init__(self, name: str, node_image: str | None, keep: bool, count: int = 1) -> None:
        self.name = name
        self.is_ours = False
        self._node_image = node_image
        self._keep = keep
        self._count = count
        self._lock: socket.socket | None = None
        self._folder = new_folder(None)
        self.kubeconfig = self._folder.path / "kubeconfig"

    @property
    def stays(self) -> bool:
        """Whether `leave` lets it be."""
        return self._keep or not self.is_ours

    async def enter(self) -> tuple[str, ...]:
        """Make sure that the cluster is there; the names of its nodes' containers.

        Raises:
            InputError: Another run uses it.
            HostError: docker or kind fails; nothing is left of a cluster that was begun.
        """
        self._take()
        await output_of("docker", "version")
        if self.name not in (await output_of("kind", "get", "clusters")).split():
            await self._create()
        kubeconfig = await output_of("kind", "get", "kubeconfig", "--name", self.name)
        self.kubeconfig.write_text(with_keys_in_files(kubeconfig, self.kubeconfig.parent))
        nodes = (await output_of("kind", "get", "nodes", "--name", self.name)).split()
        if not nodes:
            raise HostError(f"cluster '{self.name}' has no nodes; delete it: kind delete cluster --name {self.name}")
        return tuple(sorted(nodes))

    async def leave(self) -> None:
        """Delete what was made; give the name free."""
        try:
            if not self.stays:
                await output_of("kind", "delete", "cluster", "--name", self.name, "--kubeconfig", str(self.kubeconfig))
        finally:
            self._folder.remove()
            if self._lock is not None:
                self._lock.close()

    async def _create(self) -> None:
        image = ("--image", self._node_image) if self._node_image else ()
        cgroups = await output_of("docker", "info", "--format", "{{.CgroupVersion}}")
        self.is_ours = True
        try:
            await output_of(
                "kind",
                "create",
                "cluster",
                "--name",
                self.name,
                *image,
                "--config",
                "-",
                "--wait",
                "180s",
                "--kubeconfig",
                str(self.kubeconfig),
                given=_config(self._count, cgroups.strip()).encode(),
                within_s=_CREATE_WITHIN_S,
            )
        except BaseException:
            self._keep = False
            raise

    def _take(self) -> None:
        # An abstract socket: the name is free again when the process has ended, however it did, and no file stays.
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0simkubelet-kind-{self.name}")
        except OSError:
            lock.close()
            raise InputError(
                f"--cluster: another run uses the cluster '{self.name}'; wait for it, or name another"
            ) from None
        self._lock = lock


@dataclass(frozen=True, slots=True)
class KindSession:
    """A cluster that is there.

    Attributes:
        kubernetes: The version of its kubelets, such as ``1.37.2``.
    """

    cluster: KindCluster
    members: KindMembers
    kubernetes: str
    image: PluginImage

    def world(self, scenario: Scenario, replacements: Mapping[str, Sequence[str]]) -> KindBackend:
        """The world of one story, not yet entered; see `KindBackend`."""
        return KindBackend(scenario, self.members, self.cluster.kubeconfig, self.image, replacements)


@contextlib.asynccontextmanager
async def kind_session(name: str, node_image: str | None, keep: bool, count: int = 1) -> AsyncIterator[KindSession]:
    """Make or find a cluster; leaving deletes it where it was made here and is not kept.

    Args:
        name: Its name for kind.
        node_image: Of its nodes where it has to be made; kind's default where it is None.
        keep: Leave it there.
        count: How many nodes it has where it has to be made.

    Raises:
        InputError: Another run uses it.
        HostError: docker or kind fails; nothing is left.
    """
    cluster = KindCluster(name, node_image, keep, count)
    try:
        containers = await cluster.enter()
        source = await asyncio.to_thread(image_source)
        image = source.image
        nodes = [KindNode(container, container, image, lambda report: None) for container in containers]
        await _bring(source, nodes)
        try:
            kubernetes = (await nodes[0].run("cat", "/kind/version")).strip().removeprefix("v")
        except HostError:
            raise HostError(f"cluster '{name}': its nodes are not kind's; name another with --cluster") from None
        members = KindMembers(nodes)
        try:
            yield KindSession(cluster, members, kubernetes, image)
        finally:
            if cluster.stays:
                await asyncio.shield(members.restore())
    finally:
        await asyncio.shield(cluster.leave())


async def _bring(source: ImageSource, nodes: Sequence[KindNode]) -> None:
    """See that all nodes have an image."""
    # A run that was killed may have left a runtime paused, and a paused one would keep this one waiting.
    await asyncio.gather(*(node.resume_runtime() for node in nodes))
    there = await asyncio.gather(*(node.images() for node in nodes))
    lacking = [node for node, names in zip(nodes, there, strict=True) if source.image.reference not in names]
    if lacking:
        with_base = any(source.base not in names for names in there)
        archive = await asyncio.to_thread(source.archive, with_base=with_base)
        await asyncio.gather(*(node.load(archive) for node in lacking))
