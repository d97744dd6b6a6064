"""What simulated nodes weigh: a thousand in one process, each with a plugin, 8 devices and a running pod.

Tells the resident memory of the imports, of the first node and of each further one, and of all, with the time from
the first node's start until the last one's pod runs. Nodes are started one after the other. The plugins are stubs in
the same process, so a node's share includes the stub's own gRPC server. In another process the same is told of nodes
with a DRA driver in place of the plugin, and a pod with a claim. TMPDIR chooses the disk on which each node syncs its
checkpoints.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.support.claim_node import claim_node
from tests.support.node import running_node


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


async def add_claim_node(stack: AsyncExitStack, folder: Path) -> None:
    """A running node with a driver and a running pod that uses a claim, until the stack ends."""
    folder.mkdir()  # noqa: ASYNC240  # nothing else has to go on
    node = await stack.enter_async_context(claim_node(folder))
    await node.register()
    await node.run("c1")


@dataclass(frozen=True, slots=True)
class Kind:
    """What the nodes of a process are.

    Attributes:
        has: what each has.
        nodes: how many.
        add: starts one.
        limits: figure -> what it should keep to.
    """

    has: str
    nodes: int
    add: Callable[[AsyncExitStack, Path], Awaitable[None]]
    limits: dict[str, int]


KINDS = (
    Kind("plugin", 1000, add_node, {"further_node_kib": 2048, "total_mb": 2048, "start_s": 20}),
    Kind("DRA driver", 200, add_claim_node, {"further_node_kib": 512}),
)


async def measure(kind: Kind) -> None:
    # That each plugin ends, at the end, is no news here.
    logging.disable()
    # A node holds a dozen descriptors: its sockets and its plugin's, and the folders that it watches.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    imported = resident_kib()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        began, began_cpu = time.perf_counter(), time.process_time()
        await kind.add(stack, folder / "0")
        first = resident_kib()
        for number in range(1, kind.nodes):
            await kind.add(stack, folder / str(number))
        took, used, total = time.perf_counter() - began, time.process_time() - began_cpu, resident_kib()
    figures: dict[str, object] = {
        "imports_kib": imported,
        "first_node_kib": first - imported,
        "further_node_kib": round((total - first) / (kind.nodes - 1)),
        "total_mb": round(total / 1024),
        "start_s": round(took, 1),
        "start_cpu_s": round(used, 1),
    }
    limits = {f"{name}_at_most": limit for name, limit in kind.limits.items()}
    line = {"bench": "memory", "nodes": kind.nodes, "with": kind.has, **figures, **limits}
    print(json.dumps(line), flush=True)


def main() -> None:
    # A process for each, as its memory is what is measured.
    spawn = multiprocessing.get_context("spawn")
    for kind in KINDS:
        process = spawn.Process(target=_run, args=(kind,))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(process.exitcode)


def _run(kind: Kind) -> None:
    asyncio.run(measure(kind))


if __name__ == "__main__":
    main()
