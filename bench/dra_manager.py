"""The simulated DRA manager beside the kubelet's own, in one run, with the same driver: times, memory, ratios.

Both are driven through the line protocol (``tests/oracle/dra`` in Go, ``python -m simkubelet.stdio --manager dra``),
each with its own process of the same driver, alternately, so that a busy machine affects both alike. Times are measured
inside the two programs: a prepare covers the claim's checks, the driver's answer over its socket, and both checkpoints,
which are synced to the disk.

Every figure is a JSON line with the two medians and their ratio, ours to theirs; ``at_most`` is the ratio that it
should keep to. Exit status 3 where the kubelet's own DRA manager cannot be built: it needs Go.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench import _compared
from bench._compared import PLACES, medians, programs
from tests.support.dra_node import DRIVER, claim_object, pod_object
from tests.support.oracle import LineProcess

ROUNDS = 300
CLAIMS = 1000
RESTARTS = 5
CALL_AT_MOST = 1.5
RESTART_AT_MOST = 1.0
report = partial(_compared.report, "dra_manager")

Times = dict[str, list[float]]
"""Whose manager -> milliseconds of each round."""


class Side:
    """One DRA manager and its driver."""

    def __init__(self, name: str, folder: Path, manager: LineProcess, driver: LineProcess) -> None:
        self.name = name
        self._folder = folder
        self._manager = manager
        self._driver = driver

    async def ask(self, cmd: str, **fields: Any) -> float:
        """Send a command to the manager; the milliseconds that it took."""
        answer = await self._manager.ask(cmd=cmd, **fields)
        if not answer["ok"]:
            raise RuntimeError(f"{self.name}: {cmd}: {answer}")
        return float(answer["us"]) / 1000

    async def begin(self) -> None:
        await self.ask("start", node="node-1", wiping_ms=60000)
        await self._driver.ask(cmd="serve", endpoint="dra.sock", serve=["v1"])
        await self.register()

    async def register(self) -> None:
        await self.ask("register", driver=DRIVER, endpoint=str(self._folder / "dra.sock"), services=["v1.DRAPlugin"])

    async def prepare(self, number: int) -> float:
        """Have the claim of a new pod prepared."""
        await self.ask("put", kind="ResourceClaim", object=claim_object(f"c{number}", f"p{number}"))
        return await self.ask("prepare", pod=_pod(number))

    async def unprepare(self, number: int) -> float:
        return await self.ask("unprepare", pod=_pod(number))

    async def restart(self) -> float:
        took_ms = await self.ask("restart", node="node-1", wiping_ms=60000)
        await self.register()
        return took_ms

    @property
    def memory_mb(self) -> float:
        lines = Path(f"/proc/{self._manager.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def _pod(number: int) -> dict[str, Any]:
    return pod_object(f"p{number}", f"c{number}")


async def running(stack: AsyncExitStack, name: str, command: Sequence[str], place: str | None) -> Side:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=place))
    where = ["--dir", folder]
    manager = await stack.enter_async_context(LineProcess([*command, *where]))
    driver = await stack.enter_async_context(LineProcess([sys.executable, "-m", "tests.support.dra_driver", *where]))
    side = Side(name, Path(folder), manager, driver)
    await side.begin()
    return side


async def measure_calls(sides: Sequence[Side], place: str) -> None:
    """One claim at a time, prepared and unprepared."""
    prepares: Times = {side.name: [] for side in sides}
    unprepares: Times = {side.name: [] for side in sides}
    for number in range(ROUNDS + 1):
        # Who is second works beside what the first has left to do: each is second in turn.
        for side in sides if number % 2 else reversed(sides):
            prepared, unprepared = await side.prepare(number), await side.unprepare(number)
            if number:
                prepares[side.name].append(prepared)
                unprepares[side.name].append(unprepared)
    report("prepare p50", "ms", medians(prepares), CALL_AT_MOST, place=place)
    report("unprepare p50", "ms", medians(unprepares), CALL_AT_MOST, place=place)


async def measure_restart(sides: Sequence[Side], place: str) -> None:
    """Claims that stay, and a restart with them."""
    prepares: Times = {side.name: [] for side in sides}
    for number in range(CLAIMS):
        for side in sides:
            prepares[side.name].append(await side.prepare(number))
    tenth = CLAIMS // 10
    report(
        "prepare, last tenth of 1000",
        "ms",
        medians({name: one[-tenth:] for name, one in prepares.items()}),
        place=place,
    )
    restarts: Times = {side.name: [] for side in sides}
    for _ in range(RESTARTS):
        for side in sides:
            restarts[side.name].append(await side.restart())
    report("restart with 1000 prepared claims", "ms", medians(restarts), RESTART_AT_MOST, place=place)
    report("memory with 1000 prepared claims", "mb", {side.name: side.memory_mb for side in sides}, place=place)


async def main(oracle: str) -> None:
    commands = {"kubelet": (oracle,), "simkubelet": (sys.executable, "-m", "simkubelet.stdio", "--manager", "dra")}
    for place, folder in PLACES.items():
        for measure in (measure_calls, measure_restart):
            async with AsyncExitStack() as stack:
                await measure([await running(stack, *one, folder) for one in commands.items()], place)


if __name__ == "__main__":
    asyncio.run(main(programs("tools.build.oracle")[4]))
