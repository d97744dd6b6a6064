"""A kind cluster, made or found: kind's command line, kubeconfig and nodes."""

from __future__ import annotations

import base64
import socket
import tempfile
from pathlib import Path
from typing import Final

import yaml

from simkubelet.model.errors import HostError, InputError

from .docker import output_of

_CREATE_WITHIN_S: Final = 400.0

# A kubelet tells of lists of devices at level 2, and publishes every ten seconds if nothing is said. With one control
# plane nobody else can lead; after a reboot its controllers would wait until their own old leases are over.
_CONFIG: Final = """\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
kubeadmConfigPatches:
  - |
    kind: KubeletConfiguration
    apiVersion: kubelet.config.k8s.io/v1beta1
    logging: {verbosity: 2}
    nodeStatusUpdateFrequency: 1s
  - |
    kind: ClusterConfiguration
    apiVersion: kubeadm.k8s.io/v1beta3
    controllerManager: {extraArgs: {leader-elect: "false"}}
    scheduler: {extraArgs: {leader-elect: "false"}}
nodes:
  - role: control-plane
"""
_WORKER: Final = "  - role: worker\n"


def with_keys_in_files(kubeconfig: str, folder: Path) -> str:
    """A kubeconfig whose certificates and keys lie in files below a folder; kr8s would make files of them that stay."""
    config = yaml.safe_load(kubeconfig)
    for about in [one["cluster"] for one in config["clusters"]] + [one["user"] for one in config["users"]]:
        for key in [key for key in about if key.endswith("-data")]:
            file = folder / key.removesuffix("-data")
            file.write_bytes(base64.b64decode(about.pop(key)))
            about[file.name] = str(file)
    return yaml.safe_dump(config)


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
        self._folder = tempfile.TemporaryDirectory(prefix="sk-kind-")
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"

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
            self._folder.cleanup()
            if self._lock is not None:
                self._lock.close()

    async def _create(self) -> None:
        image = ("--image", self._node_image) if self._node_image else ()
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
                given=(_CONFIG + _WORKER * (self._count - 1)).encode(),
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
