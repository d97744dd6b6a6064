"""Plays sequences of commands to a kubelet and its plugins, and compares the answers with recorded ones.

The same sequence goes to the kubelet's real device manager (``tests/oracle``, Go) and to
``python -m simkubelet.stdio``; whatever they answer differently is a difference.

A step of a sequence is a command with two more keys: ``to`` says who gets it (``kubelet``, ``runner``, or any other
name: a stub plugin), ``answer`` is what was answered when it was recorded. Where ``varies`` is true the real manager
chose freely, and only the answer's shape counts.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.oracle import Answer, OracleProcess, StubProcess, told
from tests.support.patience import LIMIT_S
from tests.support.short_paths import short_place

Command = dict[str, Any]
Recorded = Mapping[str, Any]
KubeletCommand = str | Path | Sequence[str]
IsSettled = Callable[[Recorded, Answer | None, Answer], bool]
"""Of a step, the answer before and the answer."""

SEQUENCES = Path(__file__).parent.parent / "oracle" / "sequences.jsonl"
"""The scripts of the same folder with the answers of the usual Kubernetes version."""

# What such a command tells may come a little later than the step before it: it is asked until it has settled.
LOOKING = {
    "allocatable_devices",
    "calls",
    "checkpoint",
    "checkpoint_entries",
    "devices",
    "dump",
    "ls",
    "pod_resources",
    "streams",
}
PAUSE_S = 0.02

# What was recorded for reading: no command's argument, no part of its outcome.
NOT_SENT = {"to", "answer", "varies", "took_ms"}


def read_sequences(path: Path) -> list[dict[str, Any]]:
    """Return the sequences of a file, one a line."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class Difference:
    """One answer that is not the recorded one."""

    sequence: str
    step: int
    command: Command
    recorded: Answer
    answered: Answer
    where: str

    def __str__(self) -> str:
        return (
            f"{self.sequence}, step {self.step}, {json.dumps(self.command)}: {self.where}\n"
            f"  recorded: {json.dumps(self.recorded)}\n  answered: {json.dumps(self.answered)}"
        )


@dataclass(slots=True)
class Stage:
    """The processes of one sequence: the kubelet, and the stub plugins that were spawned, by name."""

    directory: Path
    kubelet: OracleProcess
    stub: Path
    plugins: dict[str, StubProcess] = field(default_factory=dict)

    async def do(self, step: Recorded) -> Answer:
        """Carry out one step and return its answer, without what is measured."""
        answer: Answer = told(await self._do(step["to"], command_of(step)), self.directory)
        return answer

    async def _do(self, whom: str, command: Command) -> Answer:
        match whom, command["cmd"]:
            case "kubelet", _:
                return await self.kubelet.ask(**command)
            case "runner", _:
                return await run_step(self.directory, command)
            case name, "spawn":
                return await self._spawn(name, command)
            case name, "die":
                plugin = self.plugins.pop(name)
                answer = await plugin.ask(**command)
                await plugin.close()
                return answer
        return await self.plugins[whom].ask(**command)

    async def _spawn(self, name: str, command: Command) -> Answer:
        options = {key: value for key, value in command.items() if key != "cmd"}
        options.setdefault("socket", "stub.sock" if name == "a" else f"{name}.sock")
        if previous := self.plugins.pop(name, None):
            await previous.close()
        plugin = self.plugins[name] = StubProcess(self.stub, self.directory, **options)
        await plugin.start()
        return plugin.started

    async def close(self) -> None:
        """End what was spawned."""
        for plugin in self.plugins.values():
            await plugin.close()
        self.plugins.clear()


def command_of(step: Recorded) -> Command:
    """Return what is sent of a recorded step."""
    return {key: value for key, value in step.items() if key not in NOT_SENT}


async def run_step(directory: Path, command: Command) -> Answer:
    """Carry out a step of the runner itself: a pause, or work on a file of the device plugin folder.

    ``write`` takes ``text`` or ``hex``, ``edit`` replaces ``old`` with ``new``, ``remove`` takes a file away; each
    names it in ``path``.
    """
    if command["cmd"] == "sleep":
        await asyncio.sleep(command["ms"] / 1000)
        return {"ok": True}
    path = directory / command["path"]
    match command["cmd"]:
        case "write":
            path.write_bytes(bytes.fromhex(command["hex"]) if "hex" in command else command["text"].encode())
        case "edit":
            text = path.read_text()
            if command["old"] not in text:
                return {"ok": False, "error": f"{command['path']} does not hold {command['old']!r}"}
            path.write_text(text.replace(command["old"], command["new"]))
        case "remove":
            path.unlink()
        case other:
            raise ValueError(f"the runner has no command {other!r}")
    return {"ok": True}


async def record(script: Recorded, kubelet: KubeletCommand, stub: Path) -> dict[str, Any]:
    """Play a script to a kubelet and return it as a sequence, with the answers."""
    answers = await _play(script, kubelet, stub, lambda step, before, answer: answer == before)
    steps = [{**step, "answer": answer} for step, answer in zip(script["steps"], answers, strict=True)]
    return {**script, "steps": steps}


async def play(sequence: Recorded, kubelet: KubeletCommand, stub: Path) -> list[Difference]:
    """Play a recorded sequence to a kubelet and return where its answers differ from the recorded ones.

    Args:
        sequence: One line of a recording: ``name`` and ``steps``.
        kubelet: The kubelet's program, or its command line without ``--dir``.
        stub: The Go stub's program.
    """
    answers = await _play(sequence, kubelet, stub, lambda step, before, answer: not step_difference(step, answer))
    return [
        Difference(sequence["name"], number, command_of(step), step["answer"], answer, where)
        for number, (step, answer) in enumerate(zip(sequence["steps"], answers, strict=True))
        if (where := step_difference(step, answer))
    ]


async def _play(
    sequence: Recorded,
    kubelet: KubeletCommand,
    stub: Path,
    is_settled: IsSettled,
) -> list[Answer]:
    """Carry out all steps in a new folder; those of `LOOKING` until they have settled, with their last answer too."""
    with tempfile.TemporaryDirectory(prefix="oracle-", dir=short_place()) as folder:
        async with OracleProcess(kubelet, Path(folder)) as process:
            stage = Stage(Path(folder), process, stub)
            try:
                return [await _settled(stage, step, is_settled) for step in sequence["steps"]]
            finally:
                await stage.close()


async def _settled(stage: Stage, step: Recorded, is_settled: IsSettled) -> Answer:
    deadline = time.monotonic() + LIMIT_S
    before, answer = None, await stage.do(step)
    while step["cmd"] in LOOKING and not is_settled(step, before, answer) and time.monotonic() < deadline:
        await asyncio.sleep(PAUSE_S)
        before, answer = answer, await stage.do(step)
    return answer


def step_difference(step: Recorded, answer: Answer) -> str:
    """Return where an answer to a step differs from the recorded one; "" where it does not."""
    recorded = step["answer"]
    return difference(recorded, answer, shape_only=bool(step.get("varies") or recorded.get("varies")))


def difference(recorded: Any, answered: Any, *, shape_only: bool = False, path: str = "") -> str:
    """Return where and how an answer departs from the recorded one; "" where it does not.

    An answer may have more keys than the recorded one. With `shape_only` numbers and texts may
    differ, and lists need the same length only.
    """
    here = path or "answer"
    if isinstance(recorded, dict):
        return _dict_difference(recorded, answered, shape_only, path)
    if isinstance(recorded, list):
        if not isinstance(answered, list) or len(recorded) != len(answered):
            return f"{here} is {json.dumps(answered)}, not {json.dumps(recorded)}"
        found = (
            difference(one, other, shape_only=shape_only, path=f"{path}[{index}]")
            for index, (one, other) in enumerate(zip(recorded, answered, strict=True))
        )
        return next(filter(None, found), "")
    alike = type(recorded) is type(answered) if shape_only else recorded == answered
    return "" if alike else f"{here} is {json.dumps(answered)}, not {json.dumps(recorded)}"


def _dict_difference(recorded: dict[str, Any], answered: Any, shape_only: bool, path: str) -> str:
    if not isinstance(answered, dict):
        return f"{path or 'answer'} is {json.dumps(answered)}, not {json.dumps(recorded)}"
    for key in recorded.keys() - {"varies"}:
        below = f"{path}.{key}" if path else key
        if key not in answered:
            return f"{below} is missing"
        if where := difference(recorded[key], answered[key], shape_only=shape_only, path=below):
            return where
    return _surplus(recorded, answered, path)


def _surplus(recorded: dict[str, Any], answered: dict[str, Any], path: str) -> str:
    """Name a key that should not be there: below these, the keys are data, such as resource names."""
    if path.rpartition(".")[2] in DATA_MAPS and (more := answered.keys() - recorded.keys()):
        return f"{path} has {sorted(more)} too"
    return ""


# Answers whose keys are names of resources, containers, nodes or variables: one more is another answer.
DATA_MAPS = {
    "allocatable",
    "allocatedDevices",
    "annotations",
    "capacity",
    "devices",
    "endpoints",
    "envs",
    "healthyDevices",
    "hints",
    "node_allocatable",
    "registered",
    "status",
    "unhealthyDevices",
}
