"""``python -m bench.objects [PART...]``: an API server and a scheduler with many objects.

Each part runs in a process of its own, with its clients in another, so that a line has the processor time and the
memory of the cluster alone:

- pages: 10,000 ConfigMaps, listed in pages of 100.
- watches: 1,000 watches of the pods of one node each, over TLS; their memory, and what 1,000 new pods and 1,000 new
  ConfigMaps cost while they wait.
- deletion: deletecollection of 3,000 pods; the longest time for which nothing else was answered, and how a watch of
  these pods ended.
- pods: 10,000 pods of one device each, on 100 nodes, from the first request until all run; memory before them, with
  them and after their deletion.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from scenarios.story.specs import NodeSpec
from scenarios.up.cluster import ClusterSpec, LiveCluster
from simkubelet.cluster import Objects, Written, kind_named
from tests.support.node import FakePlugin

NODES, DEVICES, PODS = 100, 100, 10_000
WATCHES = 1000
DELETED = 3000
WATCHES_MB_AT_MOST = 100
POD_CPU_MS_AT_MOST = 10
PODS_S_AT_MOST = 90
# A watch's history holds what has gone for 75 s, and is looked through every 15.
_FORGOTTEN_S = 95.0
_AT_ONCE = 16
_POD_PATH = "/api/v1/namespaces/default/pods"


def resident_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def pod(name: str, labels: Mapping[str, str] | None = None, **spec: object) -> dict[str, object]:
    limits = {"example.com/stub": "1"} if "nodeName" not in spec else {}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": {"containers": [container], **spec}}


@asynccontextmanager
async def cluster_of(nodes: int, devices: int = 0) -> AsyncIterator[LiveCluster]:
    """A live cluster, with a plugin in this process on each node where there are devices."""
    spec = ClusterSpec("bench", tuple(NodeSpec(name=f"node-{n}") for n in range(nodes)))
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        cluster = await stack.enter_async_context(LiveCluster(spec, Path(folder)))
        for node in cluster.nodes.values() if devices else ():
            plugin = FakePlugin(node.plugin_folder)
            plugin.list(f"dev-{n}" for n in range(devices))
            await plugin.serve()
            stack.push_async_callback(plugin.stop)
            await plugin.register()
        yield cluster


async def until(objects: Objects, is_so: Callable[[], bool]) -> None:
    seen = objects.change.count
    while not is_so():
        seen = await objects.change.wait(seen)
        await asyncio.sleep(0.05)


class Clients:
    """Runs coroutine functions of this module, which get a session, in another process."""

    def __init__(self, cluster: LiveCluster) -> None:
        config = cluster.api.kubeconfig()
        self._access = (cluster.api.url, cluster.api.authority, config["users"][0]["user"]["token"])
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))

    async def run(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: object) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, _run, work, self._access, args)

    def close(self) -> None:
        self._pool.shutdown()


def _run(work: Callable[..., Coroutine[Any, Any, Any]], access: tuple[str, str, str], args: tuple[object, ...]) -> Any:
    async def with_session() -> Any:
        url, authority, token = access
        connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cadata=authority))
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(url, connector=connector, headers=headers) as session:
            return await work(session, *args)

    raise_limit()
    return asyncio.run(with_session())


def raise_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


# What clients do


async def list_pages(session: aiohttp.ClientSession) -> int:
    token, pages = "", 0
    while True:
        query = {"limit": "100", "continue": token}
        async with session.get("/api/v1/namespaces/default/configmaps", params=query) as response:
            token = (await response.json())["metadata"].get("continue", "")
        pages += 1
        if not token:
            return pages


async def create_pods(session: aiohttp.ClientSession, count: int, labels: dict[str, str], spec: dict[str, str]) -> None:
    numbers = iter(range(count))

    async def create() -> None:
        for number in numbers:
            async with session.post(_POD_PATH, json=pod(f"pod-{number}", labels, **spec)) as response:
                response.raise_for_status()

    await asyncio.gather(*(create() for _ in range(_AT_ONCE)))


async def delete_pods(session: aiohttp.ClientSession, labels: str, watch_from: str) -> dict[str, Any]:
    """Delete a collection while one watch follows it; how many it saw go, and how it ended."""
    query = {"watch": "1", "labelSelector": labels, "resourceVersion": watch_from}
    async with session.get(_POD_PATH, params=query, timeout=aiohttp.ClientTimeout(None)) as watch:
        began = time.perf_counter()
        async with session.delete(_POD_PATH, params={"labelSelector": labels}) as response:
            gone = len((await response.json())["items"])
        took = time.perf_counter() - began
        seen, error = 0, ""
        while seen < gone and not error:
            event = json.loads(await asyncio.wait_for(watch.content.readline(), 60))
            seen += event["type"] == "DELETED"
            error = event["object"].get("reason", "") if event["type"] == "ERROR" else ""
    return {"deleted": gone, "took_s": round(took, 2), "seen_by_watch": seen, "watch_error": error}


async def watch_nodes(session: aiohttp.ClientSession, count: int, ready: Any, done: Any) -> None:
    async with AsyncExitStack() as stack:
        for number in range(count):
            query = {"watch": "1", "fieldSelector": f"spec.nodeName=node-{number}"}
            timeout = aiohttp.ClientTimeout(None)
            await stack.enter_async_context(session.get("/api/v1/pods", params=query, timeout=timeout))
        ready.set()
        await asyncio.get_running_loop().run_in_executor(None, done.wait)


# What is measured


async def measure_pages() -> dict[str, object]:
    async with cluster_of(1) as cluster:
        for number in range(PODS):
            cluster.api.registry.create(kind_named("configmaps"), "default", {"metadata": {"name": f"map-{number}"}})
        clients = Clients(cluster)
        began = time.process_time()
        pages = await clients.run(list_pages)
        used = time.process_time() - began
        clients.close()
    return {"objects": PODS, "pages": pages, "cpu_s": round(used, 2)}


async def measure_watches() -> dict[str, object]:
    async with cluster_of(1) as cluster:
        clients = Clients(cluster)
        with multiprocessing.get_context("spawn").Manager() as manager:
            ready, done = manager.Event(), manager.Event()
            before = resident_mb()
            watching = asyncio.create_task(clients.run(watch_nodes, WATCHES, ready, done))
            await asyncio.get_running_loop().run_in_executor(None, ready.wait)
            with_watches = resident_mb()
            used = {}
            for kind in ("pods", "configmaps"):
                began = time.process_time()
                for number in range(1000):
                    plain = {"metadata": {"name": f"map-{number}"}}
                    body = pod(f"pod-{number}", nodeName=f"node-{number}") if kind == "pods" else plain
                    cluster.api.registry.create(kind_named(kind), "default", body)
                    await asyncio.sleep(0)
                used[kind] = time.process_time() - began
            done.set()
            await watching
        clients.close()
    return {
        "watches": WATCHES,
        "watches_mb": round(with_watches - before),
        "watches_mb_at_most": WATCHES_MB_AT_MOST,
        "thousand_pods_cpu_s": round(used["pods"], 2),
        "thousand_other_writes_cpu_s": round(used["configmaps"], 2),
    }


async def measure_deletion() -> dict[str, object]:
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - began)
            await asyncio.sleep(0.001)

    async with cluster_of(1) as cluster:
        clients = Clients(cluster)
        # Pods of another scheduler stay without a node, and go at once when they are deleted.
        await clients.run(create_pods, DELETED, {"app": "many"}, {"schedulerName": "none"})
        version = str(cluster.api.registry.objects.version)
        beating = asyncio.create_task(beat())
        began = time.process_time()
        found = await clients.run(delete_pods, "app=many", version)
        used = time.process_time() - began
        beating.cancel()
        clients.close()
    return {**found, "longest_pause_s": round(longest, 2), "cpu_s": round(used, 2)}


async def measure_pods() -> dict[str, object]:
    async with cluster_of(NODES, DEVICES) as cluster:
        objects, clients = cluster.api.registry.objects, Clients(cluster)

        def offered() -> int:
            return sum(
                int(node["status"]["allocatable"].get("example.com/stub", 0)) for node in objects.all_of("nodes")
            )

        running: set[str] = set()

        def note(written: Written) -> None:
            is_running = written.object["status"].get("phase") == "Running"
            (running.add if is_running else running.discard)(written.key.name)

        # A look at all pods after each change would take more than some of what is measured.
        objects.subscribe("pods", note)
        await until(objects, lambda: offered() == NODES * DEVICES)
        before, began, began_cpu = resident_mb(), time.perf_counter(), time.process_time()
        await clients.run(create_pods, PODS, {"app": "many"}, {})
        created_s = time.perf_counter() - began
        await until(objects, lambda: len(running) == PODS)
        took, used = time.perf_counter() - began, time.process_time() - began_cpu
        with_pods = resident_mb()
        found = await clients.run(delete_pods, "app=many", str(objects.version))
        await until(objects, lambda: not objects.all_of("pods"))
        await asyncio.sleep(_FORGOTTEN_S)
        after = resident_mb()
        clients.close()
    return {
        "nodes": NODES,
        "pods": PODS,
        "created_s": round(created_s, 1),
        "running_s": round(took, 1),
        "running_s_at_most": PODS_S_AT_MOST,
        "cpu_ms_a_pod": round(used / PODS * 1000, 1),
        "cpu_ms_a_pod_at_most": POD_CPU_MS_AT_MOST,
        "before_mb": round(before),
        "with_pods_mb": round(with_pods),
        "after_mb": round(after),
        "after_mb_at_most": round(before * 1.2),
        "deletion": found,
    }


_PARTS = {
    "pages": measure_pages,
    "watches": measure_watches,
    "deletion": measure_deletion,
    "pods": measure_pods,
}


def main() -> int:
    parts = sys.argv[1:] or list(_PARTS)
    if len(parts) > 1:
        program = [sys.executable, "-m", "bench.objects"]
        return max(subprocess.run([*program, part], check=False).returncode for part in parts)
    raise_limit()
    print(json.dumps({"bench": "objects", "part": parts[0], **asyncio.run(_PARTS[parts[0]]())}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
