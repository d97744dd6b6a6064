"""A live cluster of a hundred nodes with GPUs, each with a process of the nvidia plugin, on this machine.

Tells the time until every node offers its GPUs, from then until a pod for each GPU runs, the memory of the cluster's
own process and of one plugin, and how much of a core the whole cluster takes at rest.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scenarios.story.specs import GpuSpec, NodeSpec, PluginSpec
from scenarios.up.cluster import ClusterSpec, LiveCluster
from simkubelet.cluster import Objects, kind_named

NODES = 100
GPUS = 2
REST_S = 10.0
READY_S_AT_MOST = 120
OWN_MB_AT_MOST = 512


def children() -> list[Path]:
    """The processes whose parent this one is."""
    own = Path(f"/proc/{os.getpid()}/task")
    return [Path("/proc", pid) for task in own.iterdir() for pid in (task / "children").read_text().split()]


def resident_mb(process: Path) -> float:
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def cpu_s(process: Path) -> float:
    fields = (process / "stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def until(objects: Objects, is_so: Callable[[], bool]) -> float:
    """Wait until the cluster's objects are so; the seconds that it took."""
    began = time.perf_counter()
    seen = objects.change.count
    while not is_so():
        seen = await objects.change.wait(seen)
    return time.perf_counter() - began


def pod(number: int) -> dict[str, object]:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"metadata": {"name": f"pod-{number}"}, "spec": {"containers": [container]}}


async def measure(folder: Path) -> None:
    gpus = GpuSpec(profile="t4", count=GPUS)
    nodes = tuple(NodeSpec(name=f"node-{n}", gpus=gpus) for n in range(NODES))
    spec = ClusterSpec("bench", nodes, (PluginSpec(name="nvidia", builtin="nvidia"),))
    began = time.perf_counter()
    async with LiveCluster(spec, folder) as cluster:
        objects, own = cluster.api.registry.objects, Path("/proc/self")

        def offered() -> int:
            found = objects.all_of("nodes")
            return sum(int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in found)

        def running() -> int:
            return sum(one["status"].get("phase") == "Running" for one in objects.all_of("pods"))

        await until(objects, lambda: offered() == NODES * GPUS)
        ready_s = time.perf_counter() - began
        for number in range(NODES * GPUS):
            cluster.api.registry.create(kind_named("pods"), "default", pod(number))
        pods_s = await until(objects, lambda: running() == NODES * GPUS)
        before = sum(map(cpu_s, [own, *children()]))
        await asyncio.sleep(REST_S)
        plugins = children()
        rest = (sum(map(cpu_s, [own, *plugins])) - before) / REST_S
        figures = {
            "nodes": NODES,
            "plugins": len(plugins),
            "ready_s": round(ready_s, 1),
            "ready_s_at_most": READY_S_AT_MOST,
            "pods": NODES * GPUS,
            "pods_s": round(pods_s, 1),
            "own_mb": round(resident_mb(own)),
            "own_mb_at_most": OWN_MB_AT_MOST,
            "plugin_mb": round(sum(map(resident_mb, plugins)) / len(plugins), 1),
            "cores_at_rest": round(rest, 2),
        }
        print(json.dumps({"bench": "nodes", **figures}), flush=True)


def main() -> None:
    # A node holds a dozen descriptors: its sockets and its plugin's, and the folders that it watches.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        asyncio.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
