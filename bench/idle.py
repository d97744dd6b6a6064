"""What nodes at rest cost: how often the event loop wakes between two periods of the node status.

Each node has a plugin with an open stream and a running pod. Time of the nodes stands still, so no period falls into
the measured seconds. The gRPC library keeps house in threads of its own, a few times a second for the whole process;
their wake-ups are counted apart.
"""

from __future__ import annotations

import asyncio
import json
import logging
import selectors
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.node import running_node

SECONDS = 5.0


class CountingSelector(selectors.DefaultSelector):
    """A selector that counts how often it returned."""

    wake_ups = 0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(timeout)
        self.wake_ups += 1
        return ready


def context_switches() -> int:
    """Voluntary context switches of all threads of this process so far."""
    statuses = (path.read_text() for path in Path("/proc/self/task").glob("*/status"))
    lines = (line for status in statuses for line in status.splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


async def measure(selector: CountingSelector, nodes: int) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(nodes):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            node = await stack.enter_async_context(running_node(folder))
            await node.plugin(*(f"dev-{n}" for n in range(8)))
            await node.settled_pod(2)
        await asyncio.sleep(1)
        loop_before, process_before = selector.wake_ups, context_switches()
        await asyncio.sleep(SECONDS)
        # This wait itself takes two turns: its timer, then the task that it resumes.
        loop_turns = selector.wake_ups - loop_before - 2
        figure = {"loop_wake_ups": loop_turns, "process_switches": context_switches() - process_before}
        print(json.dumps({"bench": "idle", "nodes": nodes, "seconds": SECONDS, **figure}), flush=True)


def main() -> None:
    # That each plugin ends, at the end, is no news here.
    logging.disable()
    for nodes in (1, 50):
        selector = CountingSelector()
        with asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, selector)) as runner:
            runner.run(measure(selector, nodes))


if __name__ == "__main__":
    main()
