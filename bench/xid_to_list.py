"""From an injected XID to the kubelet's next device list, through a real plugin process.

Runs the project's NVIDIA plugin, and NVIDIA's own as well where SIMKUBELET_NVIDIA_PLUGIN names its binary (the nox
session `nvidia` builds it). The time runs from before the fault is written until the kubelet has taken the list that
has the GPU unhealthy. Peer: on the best public fake NVML the XID never reaches the plugin's list; with the wait
answered from a pipe it takes 0.75 to 2.0 ms.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time

from fakegpu import Machine
from scenarios.backends.sim.backend import SimBackend
from scenarios.story.model import Scenario, Step
from scenarios.story.specs import GpuSpec, NodeSpec, PluginSpec
from simkubelet.model.events import DevicesListed

GPUS = 64
LIMIT_S = 30.0


def world(command: tuple[str, ...] | None) -> SimBackend:
    scenario = Scenario(
        name="xid-to-list",
        description="One node with many GPUs.",
        nodes=(NodeSpec(name="node-1", gpus=GpuSpec(profile="h100-80gb", count=GPUS)),),
        plugins=(PluginSpec(name="nvidia", builtin="nvidia"),),
        steps=(Step.model_validate({"advance": "1s"}),),
    )
    return SimBackend(scenario, None, False, {} if command is None else {"nvidia": command})


async def listed(backend: SimBackend, unhealthy: int) -> None:
    """Wait until the latest list has so many unhealthy GPUs."""
    seen = -1
    while True:
        for entry in backend.trace[max(seen, 0) :]:
            if isinstance(entry.event, DevicesListed) and len(entry.event.unhealthy) == unhealthy:
                return
        seen = len(backend.trace)
        await backend.trace.longer_than(seen)


async def measure(label: str, command: tuple[str, ...] | None) -> None:
    times = []
    async with asyncio.timeout(LIMIT_S), world(command) as backend:
        await listed(backend, 0)
        machine = Machine.open(backend.node("node-1").directory / "machine")
        for number, gpu in enumerate(machine.gpus):
            began = time.perf_counter()
            machine.fail(gpu.uuid, xid=79)
            await listed(backend, number + 1)
            times.append((time.perf_counter() - began) * 1000)
    times.sort()
    figure = {"median_ms": round(statistics.median(times), 2), "p99_ms": round(times[int(len(times) * 0.99)], 2)}
    print(json.dumps({"bench": "xid_to_list", "plugin": label, "runs": len(times), **figure}), flush=True)


async def main() -> None:
    await measure("simkubelet plugin nvidia", None)
    binary = os.environ.get("SIMKUBELET_NVIDIA_PLUGIN")
    if binary:
        await measure("NVIDIA k8s-device-plugin v0.19.0", (binary,))


if __name__ == "__main__":
    asyncio.run(main())
