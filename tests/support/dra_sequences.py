"""Sequences of commands for a DRA manager and a driver, with the answers of the kubelet's own manager.

A step is a command with two more keys: ``to`` is ``manager`` or ``driver``, ``answer`` what was answered when it was
recorded on Kubernetes 1.37. DIR stands for the folder.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.oracle import Answer, LineProcess, told
from tests.support.sequences import command_of, difference, read_sequences

Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Send a command to the manager or the driver and return its answer."""

DRA_SEQUENCES = Path(__file__).parent.parent / "oracle" / "dra_sequences.jsonl"


def recorded_sequences() -> list[dict[str, Any]]:
    return read_sequences(DRA_SEQUENCES)


async def play(sequence: Mapping[str, Any], folder: Path, ask: Ask) -> list[str]:
    """Play a sequence; each answer that is not the recorded one, in words."""
    found = []
    for number, step in enumerate(sequence["steps"]):
        if where := difference(step["answer"], await _answer(step, folder, ask)):
            found.append(f"{sequence['name']}, step {number}, {json.dumps(command_of(step))}: {where}")
    return found


async def record(sequence: Mapping[str, Any], folder: Path, ask: Ask) -> dict[str, Any]:
    """Play a sequence; the same with what is answered now, of answers of which a part is recorded in that part."""
    steps = []
    for step in sequence["steps"]:
        now, before = await _answer(step, folder, ask), step["answer"]
        is_part = now["ok"] == before["ok"] and before.keys() <= now.keys()
        steps.append({**step, "answer": {key: now[key] for key in before} if is_part else now})
    return {**sequence, "steps": steps}


@asynccontextmanager
async def manager_and_driver(manager: Path) -> AsyncIterator[tuple[Path, Ask]]:
    """The real manager, a program, with a driver in a folder of their own: the folder, and how they are asked."""
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        place = ["--dir", folder]
        driver = [sys.executable, "-m", "tests.support.dra_driver", *place]
        async with LineProcess([str(manager), *place]) as one, LineProcess(driver) as other:

            async def ask(to: str, command: dict[str, Any]) -> Answer:
                return await (one if to == "manager" else other).ask(**command)

            yield Path(folder), ask


async def _answer(step: Mapping[str, Any], folder: Path, ask: Ask) -> Any:
    placed = json.loads(json.dumps(command_of(step)).replace("DIR/", f"{folder}/"))
    return told(await ask(step["to"], placed), folder)
