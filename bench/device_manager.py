"""The simulated device manager beside the kubelet's own, in one run, with the same plugin: times, memory, ratios.

Both are driven through the oracle's line protocol (``tests/oracle`` in Go, ``python -m simkubelet.stdio``), each with
its own process of the Go stub plugin, alternately, so that a busy machine affects both alike. Times are measured
inside the two programs: an allocation covers the decision, the plugin's answer and the checkpoint, which is
synced to the disk; a list is timed from just before it is sent to its first sight in the capacity.

Every figure is a JSON line with the two medians and their ratio, ours to theirs; ``at_most`` is the ratio that it
should keep to. BENCH_DEVICES narrows the device counts, for instance ``BENCH_DEVICES=8,1000``. Exit status 3 where the
kubelet's own device manager cannot be built: it needs Go.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import _compared
from bench._compared import PLACES, medians, programs
from tests.support.oracle import OracleProcess, StubProcess

ROOT = Path(__file__).resolve().parent.parent
RESOURCE = "example.com/stub"
PODS = 1000


@dataclass(frozen=True, slots=True)
class Devices:
    """A plugin's list, and what is measured with it.

    Attributes:
        count: how many devices.
        pattern: their ids, with a place for the number.
        allocations: rounds.
        lists: rounds.
        allocate_at_most: place -> the ratio that an allocation should keep to.
        list_at_most: the ratio that a list should keep to.
    """

    count: int
    pattern: str
    allocations: int
    lists: int
    allocate_at_most: Mapping[str, float]
    list_at_most: float


# As a GPU that is shared names its parts; so many of them are the longest list that a kubelet takes: 4,194,260 bytes.
SHARED_GPU = "GPU-6f8d1c1e-2b7a-4c59-9d0e-3a5b7c9d1e2f---0---%d"
LISTS = (
    Devices(8, "dev-%d", 300, 100, {"tmpfs": 2.0, "disk": 1.3}, 2.0),
    Devices(1000, "dev-%d", 300, 100, {}, 1.0),
    Devices(8000, "dev-%d", 100, 40, {"tmpfs": 1 / 4, "disk": 1 / 4}, 1.0),
    Devices(65536, "dev-%d", 30, 15, {"tmpfs": 1 / 5, "disk": 1 / 5}, 1.0),
    Devices(64698, SHARED_GPU, 20, 15, {}, 1.0),
)
COUNTS = os.environ.get("BENCH_DEVICES", ",".join(str(devices.count) for devices in LISTS)).split(",")
MEMORY_AT_MOST = 1.5
RESTART_AT_MOST = 1.0
report = partial(_compared.report, "device_manager")


@dataclass(slots=True)
class Side:
    """One device manager with its plugin."""

    name: str
    kubelet: OracleProcess
    plugin: StubProcess
    uid: int = 0

    async def ask(self, **command: Any) -> dict[str, Any]:
        answer = await self.kubelet.ask(**command)
        if not answer["ok"]:
            raise RuntimeError(f"{self.name}: {command}: {answer}")
        return answer

    async def allocate(self) -> float:
        """Admit a pod with one device; milliseconds."""
        self.uid += 1
        container = {"name": "c", "limits": {RESOURCE: 1}}
        await self.ask(
            cmd="add_pod", uid=f"u{self.uid}", name=f"pod-{self.uid}", init_containers=[], containers=[container]
        )
        answer = await self.ask(cmd="allocate", pod=f"u{self.uid}", container="c")
        return float(answer["us"]) / 1000

    async def allocate_and_end(self) -> float:
        took_ms = await self.allocate()
        await self.ask(cmd="forget_pod", pod=f"u{self.uid}")
        return took_ms

    async def see(self, device: str, health: str, allocatable: int) -> float:
        """Change one device's health; milliseconds from the send to its sight in the capacity."""
        seeing = asyncio.create_task(
            self.ask(cmd="wait_capacity", resource=RESOURCE, allocatable=allocatable, timeout_ms=20000)
        )
        sent = await self.plugin.ask(cmd="set_health", ids=[device], health=health)
        return float((await seeing)["seen_t"] - sent["send_t"]) / 1e6


@asynccontextmanager
async def running(
    name: str, command: tuple[str, ...], stub: str, place: str | None, count: int, pattern: str
) -> AsyncIterator[Side]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as folder:
        async with OracleProcess(command, Path(folder)) as kubelet:
            await kubelet.ask(cmd="start", sources_ready=True)
            async with StubProcess(stub, Path(folder), devices=count, pattern=pattern) as plugin:
                side = Side(name, kubelet, plugin)
                await side.ask(
                    cmd="wait_capacity", resource=RESOURCE, capacity=count, allocatable=count, timeout_ms=20000
                )
                yield side


async def both(measure: Callable[[Side], Awaitable[float]], sides: list[Side], rounds: int) -> dict[str, list[float]]:
    """Measure on both sides alternately; one round of each is not counted."""
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(rounds + 1):
        # Who is second works beside what the first has left to do: each is second in turn.
        for side in sides if number % 2 else reversed(sides):
            took = await measure(side)
            if number:
                times[side.name].append(took)
    return times


def slow_ends(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: sorted(values)[int(len(values) * 0.99)] for name, values in times.items()}


async def stats(sides: list[Side], figure: str) -> dict[str, float]:
    return {side.name: (await side.ask(cmd="stats"))[figure] for side in sides}


async def measure_devices(sides: list[Side], devices: Devices, place: str) -> None:
    """Allocations and lists at one number of devices."""
    about: dict[str, Any] = {"place": place, "devices": devices.count}
    before = await stats(sides, "cpu_ms")
    times = await both(Side.allocate_and_end, sides, devices.allocations)
    after = await stats(sides, "cpu_ms")
    report("allocate p50", "ms", medians(times), devices.allocate_at_most.get(place), **about)
    report("allocate p99", "ms", slow_ends(times), **about)
    # With the coming and going of the pod, and all threads of the process.
    used = {name: (after[name] - before[name]) / (devices.allocations + 1) for name in after}
    report("allocate cpu", "ms", used, **about)
    health = {side.name: False for side in sides}

    async def see(side: Side) -> float:
        is_healthy = health[side.name]
        health[side.name] = not is_healthy
        changed, usable = ("Healthy", devices.count) if is_healthy else ("Unhealthy", devices.count - 1)
        return await side.see(devices.pattern % 0, changed, usable)

    times = await both(see, sides, devices.lists)
    report("list to visible p50", "ms", medians(times), devices.list_at_most, **about)
    memory = await stats(sides, "rss_kib")
    report("memory", "mb", {name: kib / 1024 for name, kib in memory.items()}, MEMORY_AT_MOST, **about)


async def measure_pods(sides: list[Side], place: str) -> None:
    """A thousand pods that stay, and a restart with them."""
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(PODS):
        for side in sides:
            times[side.name].append(await side.allocate())
    tenth = PODS // 10
    first = {name: statistics.median(values[1:tenth]) for name, values in times.items()}
    last = {name: statistics.median(values[-tenth:]) for name, values in times.items()}
    report("allocate, first tenth of 1000 pods", "ms", first, place=place)
    report("allocate, last tenth of 1000 pods", "ms", last, place=place)
    # Here it is simkubelet's own figure that has a limit, 1.5, and not its ratio to the kubelet's.
    report("last tenth to first", "times", {name: last[name] / first[name] for name in last}, place=place)
    restarts: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(5):
        for side in sides:
            answer = await side.ask(cmd="restart", sources_ready=True)
            restarts[side.name].append(answer["start_us"] / 1000)
    report("restart with 1000 pods", "ms", medians(restarts), RESTART_AT_MOST, place=place)


async def main(oracle: str, stub: str) -> None:
    commands = {"kubelet": (oracle,), "simkubelet": (sys.executable, "-m", "simkubelet.stdio")}

    async def pair(stack: AsyncExitStack, folder: str | None, count: int, pattern: str) -> list[Side]:
        return [
            await stack.enter_async_context(running(name, command, stub, folder, count, pattern))
            for name, command in commands.items()
        ]

    for place, folder in PLACES.items():
        for devices in LISTS:
            if str(devices.count) in COUNTS:
                async with AsyncExitStack() as stack:
                    await measure_devices(await pair(stack, folder, devices.count, devices.pattern), devices, place)
        async with AsyncExitStack() as stack:
            await measure_pods(await pair(stack, folder, PODS, "dev-%d"), place)


if __name__ == "__main__":
    asyncio.run(main(*programs("tools.build.oracle")[:2]))
