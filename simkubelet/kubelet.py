"""The kubelet: a node's folder and runtime that last, and one instance after another that works on them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .clock import Clock
from .cluster.store import Store
from .events import KubeletStarted, KubeletStopped, Observer
from .kubelet_instance import KubeletInstance
from .plugin_folder import PluginFolder
from .pod import Pod
from .pod_devices import DeviceID
from .resources import ResourceName, parse_amount
from .runtime import ContainerRuntime
from .version import Version

__all__ = ["DEFAULT_MACHINE", "Kubelet"]

DEFAULT_MACHINE: Final[Mapping[ResourceName, int]] = {
    ResourceName(name): parse_amount(name, quantity)
    for name, quantity in {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}.items()
}


class Kubelet:
    """The kubelet of one simulated node.

    Args:
        directory: the device plugin folder: ``kubelet.sock``, the plugins' sockets, the checkpoint.
        node: the node's name.
        version: the Kubernetes minor it behaves as.
        clock: its time.
        store: the cluster it belongs to.
        observe: told of everything that happens on the node.
        tasks: owns the kubelet's loops; a failure in one ends the group.
        machine: native resources of the node, resource -> amount.
    """

    def __init__(
        self,
        directory: Path,
        node: str,
        *,
        version: Version,
        clock: Clock,
        store: Store,
        observe: Observer,
        tasks: asyncio.TaskGroup,
        machine: Mapping[ResourceName, int] = DEFAULT_MACHINE,
    ) -> None:
        self._group = tasks
        self.node = node
        self.folder = PluginFolder(directory)
        self.runtime = ContainerRuntime()
        self._version = version
        self._clock = clock
        self._store = store
        self._observe = observe
        self._machine = machine
        self._instance: KubeletInstance | None = None

    @property
    def is_running(self) -> bool:
        return self._instance is not None

    async def start(self) -> None:
        """Start an instance: read the checkpoint, clean the folder, publish the node, serve ``kubelet.sock``.

        Raises:
            InputError: the folder cannot hold sockets.
            HostError: the socket cannot be made.
        """
        if self._instance is not None:
            raise RuntimeError(f"the kubelet of {self.node} runs already")
        self.folder.prepare()
        instance = KubeletInstance(
            self.node,
            self.folder,
            self.runtime,
            version=self._version,
            clock=self._clock,
            store=self._store,
            observe=self._observe,
            machine=self._machine,
            tasks=self._group,
        )
        await instance.start()
        self._instance = instance
        self._observe(KubeletStarted(self.node))

    async def stop(self) -> None:
        """End the instance, if there is one: streams are cut, containers and plugins go on."""
        instance, self._instance = self._instance, None
        if instance is not None:
            await instance.stop()
            self._observe(KubeletStopped(self.node))

    async def restart(self) -> None:
        """Stop the instance and start the next one, as ``systemctl restart kubelet`` does."""
        await self.stop()
        await self.start()

    def devices_of(self, pod: Pod) -> Mapping[str, Mapping[ResourceName, tuple[DeviceID, ...]]]:
        """Container -> resource -> device ids (sorted) that a pod holds; empty while the kubelet is down."""
        if self._instance is None:
            return {}
        book = self._instance.manager.pod_devices
        return {
            container.name: {
                resource: tuple(sorted(allocation.devices()))
                for resource, allocation in book.container(pod.uid, container.name).items()
            }
            for container in pod.containers
        }
