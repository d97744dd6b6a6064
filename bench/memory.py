"""What simulated nodes weigh: resident memory of a process with 1, 2 … 51 of them, each with a plugin and 8 devices.

The plugins are stubs in the same process, so the share of one node includes the stub's own gRPC server.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from tests.support.node import running_node

NODES = 50


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("no VmRSS in /proc/self/status")


async def main() -> None:
    imported = resident_kib()
    async with AsyncExitStack() as stack:

        async def add_node() -> None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            node = await stack.enter_async_context(running_node(folder))
            await node.plugin(*(f"dev-{n}" for n in range(8)))
            await node.settled_pod(2)

        await add_node()
        first = resident_kib()
        for _ in range(NODES):
            await add_node()
        each = (resident_kib() - first) / NODES
    figure = {"imports_kib": imported, "first_node_kib": first - imported, "further_node_kib": round(each)}
    print(json.dumps({"bench": "memory", "nodes": NODES + 1, **figure}))


if __name__ == "__main__":
    asyncio.run(main())
