"""A node whose pods use claims: objects in its cluster, and the plugin of a driver in the test's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from simkubelet.apis import pluginregistration
from simkubelet.apis.dra import DRA_PLUGIN_TYPE
from simkubelet.cluster.objects.objects import JSON, Key
from simkubelet.model.pod import Pod
from simkubelet.node_tree import PLUGINS_REGISTRY
from tests.support.dra_driver import PREPARE, UNPREPARE, Behaviour, DraDriver
from tests.support.dra_node import DRIVER, claim_object, pod_object
from tests.support.node import Node, running_node
from tests.support.patience import until

CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"
REGISTRATION = f"{PLUGINS_REGISTRY}/drv-reg.sock"
ENDPOINT = "plugins/drv/dra.sock"


class ClaimNode:
    """The node and its one driver.

    Attributes:
        root: the kubelet's root directory, in which the driver has its sockets.
    """

    def __init__(self, node: Node, root: Path) -> None:
        self.node = node
        self.root = root
        self.driver = DraDriver(root)

    async def register(self, endpoint: str = ENDPOINT, named: str | None = None, *services: str) -> None:
        """Serve the driver's plugin, and return when the kubelet is connected to it.

        Args:
            endpoint: below the root directory.
            named: what the driver calls its endpoint, where that is not its path on this host.
            services: besides ``v1``; ``health`` for one.
        """
        (self.root / endpoint).parent.mkdir(parents=True, exist_ok=True)
        await self.driver.serve(endpoint, ["v1", *services])
        self.announce(REGISTRATION, named or str(self.root / endpoint))
        await self.until_connected()

    def announce(self, socket: str, endpoint: str) -> None:
        """Let the kubelet find a plugin of the driver by a socket below the root directory."""
        info = pluginregistration.PluginInfo(
            type=DRA_PLUGIN_TYPE, name=DRIVER, endpoint=endpoint, supported_versions=["v1.DRAPlugin"]
        )
        self.driver.announce(socket, info)

    async def until_connected(self, is_connected: bool = True) -> None:
        """Let the node's seconds pass until the kubelet has a connection to the driver, or none."""
        await self.pass_until(lambda: self.is_connected is is_connected)

    @property
    def is_connected(self) -> bool:
        return any(one.is_connected for one in self.dra.plugins.of_driver(DRIVER))

    @property
    def dra(self) -> Any:
        """The DRA manager of the kubelet that runs."""
        instance = self.node.kubelet._instance
        assert instance is not None
        return instance.containers.dra

    def answer(self, rpc: str, mode: str = "", message: str = "", **devices: Any) -> None:
        """How the driver answers from now on, see `Behaviour`."""
        method = {"prepare": PREPARE, "unprepare": UNPREPARE}[rpc]
        self.driver.behaviours[method] = Behaviour(mode=mode, message=message, devices=devices)

    async def calls(self) -> list[str]:
        """The calls of claims since the last time, as ``prepare c1``."""
        taken = await self.driver.calls()
        return [f"{call['rpc']} {call['claims'][0].split('/')[1]}" for call in taken if "claims" in call]

    async def pass_until(self, condition: Any, step_s: float = 1.0) -> None:
        """Let node time pass in steps until a condition holds; what is real gets its time in between."""
        while not condition():
            await self.node.clock.advance(step_s)
            # Sockets and connections are real.
            moment = iter(range(20))
            await until(lambda: condition() or next(moment, None) is None)  # noqa: B023 - used at once

    # Objects

    def claim(self, name: str, *pods: Pod, **changes: Any) -> JSON:
        """An allocated claim, reserved for pods."""
        claim = claim_object(name, *(pod.uid for pod in pods), **changes)
        return self.node.store.objects.create(Key(CLAIMS, "default", name), claim)

    def pod(self, *claims: str, name: str = "p", statuses: list[JSON] | None = None, **spec: Any) -> Pod:
        """A pod that no node has yet, with a container that uses these claims."""
        manifest = pod_object("x", *claims, **spec)
        container = {**manifest["spec"]["containers"][0], "image": "none"}
        pod = self.node.store.create_pod(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {"containers": [container], "resourceClaims": manifest["spec"]["resourceClaims"]},
                "status": {},
            }
        )
        if statuses:
            key = Key("pods", "default", name)
            body = self.node.store.objects.get(key) or {}
            status = {**(body.get("status") or {}), "resourceClaimStatuses": statuses}
            self.node.store.objects.replace(key, {**body, "status": status})
        return pod

    def bind(self, pod: Pod) -> None:
        self.node.store.bind(pod.uid, "node-1")

    async def run(self, *claims: str, name: str = "p") -> Pod:
        """A pod that runs with claims, which are made for it where they are not there."""
        pod = self.pod(*claims, name=name)
        for claim in claims:
            if self.node.store.objects.get(Key(CLAIMS, "default", claim)) is None:
                self.claim(claim, pod)
        self.bind(pod)
        await self.node.until(lambda: self.node.phase(name) == "Running")
        return pod

    def cdi_devices(self, pod: Pod, container: str = "c") -> tuple[str, ...]:
        return self.node.kubelet.containers_of(pod)[container].options.cdi_devices


@asynccontextmanager
async def claim_node(folder: Path, minor: str = "1.34", **settings: Any) -> AsyncIterator[ClaimNode]:
    """A running node without a driver."""
    async with running_node(folder, minor, **settings) as node:
        made = ClaimNode(node, folder)
        try:
            yield made
        finally:
            await made.driver.stop()
