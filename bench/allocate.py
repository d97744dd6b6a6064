"""What a device costs: the bare Allocate call, and a pod from its creation to Running.

The plugin is a stub in the same process that answers at once. The second figure holds the decision, the call, the
checkpoint on disk (written, synced, renamed) and the start of the container. Peer, Allocate alone with its checkpoint:
the kubelet's own device manager, 0.78 ms at 8 devices and 0.98 ms at 1,000 on ext4, 0.30 and 0.69 ms on tmpfs
(k8s.io/kubernetes v1.34.4, stub plugin over a socket). TMPDIR chooses the disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import tempfile
import time
from pathlib import Path

from simkubelet.apis import deviceplugin as api
from tests.support.grpc_peers import DEVICE_PLUGIN, calls
from tests.support.node import FakePlugin, Node, running_node

ROUNDS = 300


async def admissions_ms(node: Node) -> list[float]:
    """One pod after the other, each deleted before the next."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        name = await node.settled_pod(1)
        times.append((time.perf_counter() - began) * 1000)
        await node.delete(name)
    return times


async def calls_ms(plugin: FakePlugin, device: str) -> list[float]:
    """The bare Allocate call on an open connection."""
    request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=[device])])
    times = []
    async with calls(plugin.folder / plugin.endpoint, DEVICE_PLUGIN) as stub:
        await stub.Allocate(request)
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await stub.Allocate(request)
            times.append((time.perf_counter() - began) * 1000)
    return times


def report(what: str, devices: int, times: list[float]) -> None:
    times.sort()
    figure = {
        "median_ms": round(statistics.median(times), 3),
        "p99_ms": round(times[int(len(times) * 0.99)], 3),
    }
    print(json.dumps({"bench": "allocate", "what": what, "devices": devices, "runs": len(times), **figure}), flush=True)


async def main() -> None:
    # That each plugin ends, at the end, is no news here.
    logging.disable()
    for count in (8, 1000):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            async with running_node(Path(folder)) as node:
                devices = [f"dev-{n:04}" for n in range(count)]
                plugin = await node.plugin(*devices)
                report("rpc", count, await calls_ms(plugin, devices[0]))
                report("pod", count, await admissions_ms(node))


if __name__ == "__main__":
    asyncio.run(main())
