"""`simkubelet join` killed again and again, while pods come and go in a cluster that stays.

The API server's answers are the journal: a pod that was created has to run when the node is back, a pod that was
deleted has to go, and the node is registered once. All pods together need no more GPUs than there are, so if all of
them run each has its own. The kill is a power cut for the node: as a real kubelet does then, its kubelet may refuse
pods that it finds before the plugin is back, which is the end of these pods.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Final

from simkubelet.remote import ApiClient, read_kubeconfig
from tests.support.joined_nodes import PODS, any_cluster
from tests.support.live_cluster import environment

from .forked import Program
from .journal import Journal

_RUNS: Final = "Running"
_REFUSED: Final = frozenset({"Failed UnexpectedAdmissionError", "Failed OutOfnvidia.com/gpu"})
_GPUS: Final = 4
_NODE: Final = "killed-1"
_LIVES_S: Final = 4.0
"""How long a process may run, from its beginning or from the time at which all pods run again."""
_PAUSE_S: Final = 0.1
_GUARD_S: Final = 180.0


def kill_joined_nodes(kills: int, chance: random.Random, folder: Path, journal: Journal) -> None:
    """Kill so many processes with a joined node; each second one before its pods run."""
    with any_cluster() as kubeconfig:
        asyncio.run(_Node(kubeconfig, chance, folder, journal).killed(kills))


class _Node:
    def __init__(self, kubeconfig: Path, chance: random.Random, folder: Path, journal: Journal) -> None:
        self._kubeconfig = kubeconfig
        self._chance = chance
        self._folder = folder
        self._journal = journal
        self._pods: set[str] = set()
        self._count = 0

    async def killed(self, kills: int) -> None:
        async with ApiClient(read_kubeconfig(self._kubeconfig)) as client:
            for _ in range(kills):
                with self._started() as process:
                    if self._chance.random() < 1 / 2:
                        await self._compare(client, process)
                    limit = time.monotonic() + self._chance.uniform(0, _LIVES_S)
                    while time.monotonic() < limit:
                        await self._change(client)
                        await asyncio.sleep(_PAUSE_S)
                    if (status := process.wait_until(0)) is not None:
                        self._journal.lose(f"ends with {status}: {process.end_of_log()}")
                self._journal.kills += 1
            with self._started() as process:
                await self._compare(client, process)

    def _started(self) -> Program:
        words = ["--kubeconfig", self._kubeconfig, "--name-prefix", "killed", "--profile", "t4", "--gpus", _GPUS]
        return Program("simkubelet", ["join", *words], self._folder / "log", environment=environment(self._folder))

    async def _change(self, client: ApiClient) -> None:
        """Create a pod or delete one, as far as there are GPUs."""
        if len(self._pods) < _GPUS and self._chance.random() < 1 / 2:
            self._count += 1
            name = f"pod-{self._count}"
            container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
            spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
            await client.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})
            self._pods.add(name)
            self._journal.acknowledged += 1
        elif self._pods:
            await self._delete(client, self._chance.choice(sorted(self._pods)))

    async def _delete(self, client: ApiClient, name: str) -> None:
        await client.call("DELETE", f"{PODS}/{name}")
        self._pods.remove(name)
        self._journal.acknowledged += 1

    async def _compare(self, client: ApiClient, process: Program) -> None:
        """Wait until all pods of the journal run, and no others are there."""
        limit = time.monotonic() + _GUARD_S
        while (now := await self._states(client)).keys() != self._pods or {*now.values()} - {_RUNS, *_REFUSED}:
            if time.monotonic() > limit:
                self._journal.lose(f"expected that {sorted(self._pods)} run; actual {now}; {process.end_of_log()}")
                self._pods = set(now)
                break
            await asyncio.sleep(_PAUSE_S)
        for name in [name for name, state in now.items() if state in _REFUSED]:
            await self._delete(client, name)
        nodes = [one["metadata"]["name"] for one in (await client.get("/api/v1/nodes"))["items"]]
        if self._pods and nodes.count(_NODE) != 1:
            self._journal.lose(f"the nodes are {nodes}")

    async def _states(self, client: ApiClient) -> dict[str, str]:
        """Pod -> its phase, with the reason where there is one."""
        found = {pod["metadata"]["name"]: pod.get("status") or {} for pod in (await client.get(PODS))["items"]}
        return {name: f"{status.get('phase')} {status.get('reason', '')}".strip() for name, status in found.items()}
