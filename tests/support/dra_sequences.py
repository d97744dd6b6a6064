"""Sequences of commands for a DRA manager and a driver, with the answers of the kubelet's own manager.

A step is a command with two more keys: ``to`` is ``manager`` or ``driver``, ``answer`` what was answered when it was
recorded on Kubernetes 1.34. DIR stands for the folder.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.oracle import told
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
        command = command_of(step)
        placed = json.loads(json.dumps(command).replace("DIR/", f"{folder}/"))
        answer = told(await ask(step["to"], placed), folder)
        if where := difference(step["answer"], answer):
            found.append(f"{sequence['name']}, step {number}, {json.dumps(command)}: {where}")
    return found
