"""``python -m bench.nodes [PART...]``: live clusters with many nodes, each with a plugin, on this machine.

Each part runs in a process of its own:

- processes=NODES: so many nodes with two GPUs each and a process of the nvidia plugin, 100 by default; then a pod for
  each GPU, the memory and the processor time of one plugin, with its share of the process from which all are forked,
  and how much of a core the whole cluster takes at rest.
- tasks=NODES: so many nodes as ``simkubelet up --plugin stub`` makes them, a stub with eight devices on each; 50, 200
  and 1,000 by default.

A line has the time until every node offers its devices, the processor time of that, and the memory of the cluster's own
process.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from scenarios.story.specs import GpuSpec, NodeSpec, PluginSpec
from scenarios.up.cluster import ClusterSpec, LiveCluster
from scenarios.up.plugin_images import STUB
from simkubelet.cluster import Objects, kind_named

GPU_NODES = 100
GPUS = 2
STUB_DEVICES = 8
STUB_NODES = (50, 200, 1000)
REST_S = 10.0
LIMITS = {
    ("processes", GPU_NODES): {"ready_s_at_most": 120, "own_mb_at_most": 512},
    ("tasks", 1000): {"ready_s_at_most": 30, "own_mb_at_most": 400},
}


def started_by(process: Path) -> list[Path]:
    """The processes that a process has started, and those that they have started."""
    tasks = (process / "task").iterdir()
    children = [Path("/proc", pid) for task in tasks for pid in (task / "children").read_text().split()]
    return [*children, *(one for child in children for one in started_by(child))]


def resident_mb(process: Path) -> float:
    return _memory_mb(process / "status", "VmRSS:")


def shared_out_mb(process: Path) -> float:
    """Its memory, where what several processes share counts as a part for each (PSS, proc(5))."""
    return _memory_mb(process / "smaps_rollup", "Pss:")


def _memory_mb(table: Path, row: str) -> float:
    return next(int(line.split()[1]) for line in table.read_text().splitlines() if line.startswith(row)) / 1024


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


@asynccontextmanager
async def cluster_of(
    nodes: int, plugin: PluginSpec, gpus: GpuSpec | None, resource_name: str, devices: int
) -> AsyncIterator[tuple[LiveCluster, dict[str, object]]]:
    """A cluster whose nodes offer all their devices, and what it took to get there."""
    spec = ClusterSpec("bench", tuple(NodeSpec(name=f"node-{n}", gpus=gpus) for n in range(nodes)), (plugin,))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        began, began_cpu = time.perf_counter(), time.process_time()
        async with LiveCluster(spec, Path(folder)) as cluster:
            objects = cluster.api.registry.objects
            made_s = time.perf_counter() - began

            def offered() -> int:
                found = objects.all_of("nodes")
                return sum(int(node["status"]["allocatable"].get(resource_name, 0)) for node in found)

            await until(objects, lambda: offered() == nodes * devices)
            figures: dict[str, object] = {
                "nodes": nodes,
                "made_s": round(made_s, 1),
                "ready_s": round(time.perf_counter() - began, 1),
                "ready_cpu_s": round(time.process_time() - began_cpu, 1),
                "own_mb": round(resident_mb(Path("/proc/self"))),
            }
            yield cluster, figures


async def measure_processes(nodes: int) -> None:
    nvidia, gpus = PluginSpec(name="nvidia", builtin="nvidia"), GpuSpec(profile="t4", count=GPUS)
    async with cluster_of(nodes, nvidia, gpus, "nvidia.com/gpu", GPUS) as (cluster, figures):
        objects, own, pods = cluster.api.registry.objects, Path("/proc/self"), nodes * GPUS

        def running() -> int:
            return sum(one["status"].get("phase") == "Running" for one in objects.all_of("pods"))

        for number in range(pods):
            cluster.api.registry.create(kind_named("pods"), "default", pod(number))
        pods_s = await until(objects, lambda: running() == pods)
        started = started_by(own)
        plugins_cpu_s = sum(map(cpu_s, started))
        before = cpu_s(own) + plugins_cpu_s
        await asyncio.sleep(REST_S)
        figures |= {
            "plugins": nodes,
            "pods": pods,
            "pods_s": round(pods_s, 1),
            "own_mb": round(resident_mb(own)),
            "plugin_mb": round(sum(map(shared_out_mb, started)) / nodes, 1),
            "plugin_cpu_ms": round(1000 * plugins_cpu_s / nodes),
            "cores_at_rest": round((sum(map(cpu_s, [own, *started])) - before) / REST_S, 2),
        }
    report("processes", nodes, figures)


async def measure_tasks(nodes: int) -> None:
    async with cluster_of(nodes, STUB, None, "example.com/device", STUB_DEVICES) as (_, figures):
        before = time.process_time()
        await asyncio.sleep(REST_S)
        figures |= {"cores_at_rest": round((time.process_time() - before) / REST_S, 2)}
    report("tasks", nodes, figures)


def report(part: str, nodes: int, figures: dict[str, object]) -> None:
    print(json.dumps({"bench": "nodes", "part": part, **figures, **LIMITS.get((part, nodes), {})}), flush=True)


def main() -> int:
    parts = sys.argv[1:] or ["processes", *(f"tasks={nodes}" for nodes in STUB_NODES)]
    if len(parts) > 1:
        program = [sys.executable, "-m", "bench.nodes"]
        return max(subprocess.run([*program, part], check=False).returncode for part in parts)
    # A node holds a dozen descriptors: its sockets and its plugin's, and the folders that it watches.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    part, _, nodes = parts[0].partition("=")
    asyncio.run(
        measure_tasks(int(nodes or STUB_NODES[-1])) if part == "tasks" else measure_processes(int(nodes or GPU_NODES))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
