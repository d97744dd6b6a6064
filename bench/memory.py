"""What simulated nodes weigh: a thousand in one process, each with a plugin, 8 devices and a running pod.

Tells the resident memory of the imports, of the first node and of each further one, and of all, with the time from
the first node's start until the last one's pod runs. Nodes are started one after the other. The plugins are stubs in
the same process, so a node's share includes the stub's own gRPC server. TMPDIR chooses the disk on which each node
syncs its checkpoints.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tests.support.node import running_node

NODES = 1000
FURTHER_NODE_KIB_AT_MOST = 2048
TOTAL_MB_AT_MOST = 2048
SECONDS_AT_MOST = 20


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("no VmRSS in /proc/self/status")


async def add_node(stack: AsyncExitStack, folder: Path) -> None:
    """A running node with a plugin and a running pod, until the stack ends."""
    node = await stack.enter_async_context(running_node(folder))
    await node.plugin(*(f"dev-{n}" for n in range(8)))
    await node.settled_pod(2)


async def main() -> None:
    # That each plugin ends, at the end, is no news here.
    logging.disable()
    # A node holds a dozen descriptors: its sockets and its plugin's, and the folders that it watches.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    imported = resident_kib()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        began, began_cpu = time.perf_counter(), time.process_time()
        await add_node(stack, folder / "0")
        first = resident_kib()
        for number in range(1, NODES):
            await add_node(stack, folder / str(number))
        took, used, total = time.perf_counter() - began, time.process_time() - began_cpu, resident_kib()
        figures = {
            "imports_kib": imported,
            "first_node_kib": first - imported,
            "further_node_kib": round((total - first) / (NODES - 1)),
            "further_node_kib_at_most": FURTHER_NODE_KIB_AT_MOST,
            "total_mb": round(total / 1024),
            "total_mb_at_most": TOTAL_MB_AT_MOST,
            "start_s": round(took, 1),
            "start_s_at_most": SECONDS_AT_MOST,
            "start_cpu_s": round(used, 1),
        }
        print(json.dumps({"bench": "memory", "nodes": NODES, **figures}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
