"""What a thousand new kubelets leave behind in a plugin's process: descriptors, threads, memory.

Each kubelet takes the registration and the first list. The first thousand are not counted: the process still grows
into its size, as each start of the nvidia plugin leaves a thread that waits in NVML for up to 5 s. Memory is looked at
when these have ended.
BENCH_PLUGINS chooses, for instance ``BENCH_PLUGINS=nvidia,generic``.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.support.plugin_cases import CASES, PluginCase
from tests.support.plugin_kubelet import FakeKubelet, plugin_process

KUBELETS: Final = 1000
FIRST: Final = 1000
GROWTH_MIB_AT_MOST: Final = 1.0
CHOSEN: Final = os.environ.get("BENCH_PLUGINS", "nvidia,generic,iluvatar,gpushare").split(",")


def resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"no VmRSS of process {pid}")


async def measure(case: PluginCase, folder: Path) -> None:
    for name in ("node", "sockets"):
        (folder / name).mkdir()
    async with case.node(folder / "node") as node, FakeKubelet(folder / "sockets") as kubelet:
        arguments = (*node.arguments, "--kubelet-dir", str(kubelet.folder))
        async with plugin_process(arguments, folder / "log", node.environment) as process:

            async def served() -> None:
                await kubelet.listed((await kubelet.registration()).endpoint)

            async def new_kubelets(count: int) -> None:
                for _ in range(count):
                    await kubelet.restart()
                    await served()

            await served()
            at_rest = process.held()
            await new_kubelets(FIRST)
            await process.held_at_rest(at_rest)
            before_kib = resident_kib(process.pid)
            began = time.perf_counter()
            await new_kubelets(KUBELETS)
            took_s = time.perf_counter() - began
            held = await process.held_at_rest(at_rest)
            grown_mib = (resident_kib(process.pid) - before_kib) / 1024
    figures = {
        "ms_each": round(took_s / KUBELETS * 1000, 1),
        "descriptors_more": held.descriptors - at_rest.descriptors,
        "threads_more": held.threads - at_rest.threads,
        "memory_mib": round(before_kib / 1024, 1),
        "memory_growth_mib": round(grown_mib, 2),
        "memory_growth_mib_at_most": GROWTH_MIB_AT_MOST,
    }
    print(json.dumps({"bench": "plugin_restarts", "plugin": case.name, "kubelets": KUBELETS, **figures}), flush=True)


async def main() -> None:
    for case in CASES:
        if case.name in CHOSEN:
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                await measure(case, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
