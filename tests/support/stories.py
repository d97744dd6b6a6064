"""What tests of stories share: story files, a node and its GPUs that steps change, programs, folders of clusters."""

from __future__ import annotations

import asyncio
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from pydantic import BaseModel

from fakegpu import Machine
from plugin.cli import PLUGINS
from scenarios.backends.kind.program import Program, programs_of
from scenarios.backends.sim.changes import change_file
from scenarios.backends.world import hardware
from scenarios.backends.world.node import SimNode
from scenarios.backends.world.selection import nvidia_change
from scenarios.evaluation.evaluation import evaluate
from scenarios.story.bug import KUBERNETES
from scenarios.story.crosscheck import Known
from scenarios.story.document import Document, DocumentError, load
from scenarios.story.expectations import Expectation
from scenarios.story.model import Scenario
from scenarios.story.specs import GpuSpec, NodeSpec, PluginSpec
from scenarios.story.verbs.file_action import FileAction
from scenarios.story.verbs.hardware_action import NvidiaAction
from scenarios.trace.snapshot import Snapshot
from scenarios.trace.trace import Entry, Trace
from tests.support.patience import LIMIT_S

IS_ABOUT_OTHERS: Final = "it is about Kubernetes "
"""How the reason begins why a story is not played on a minor."""
A100: Final = {"profile": "a100-40gb", "count": 3, "seed": "story"}
SOCKETS: Final = "/var/lib/kubelet/device-plugins"


@pytest.fixture
def known() -> Known:
    """What a story may name."""
    return Known(
        kubernetes=("1.26", "1.28", "1.34", "1.35"),
        profiles=("h100-80gb", "t4"),
        feature_gates=("ResourceHealthStatus", "SidecarContainers"),
    )


@pytest.fixture
def write_story(tmp_path: Path) -> Callable[..., Path]:
    """Write a story's file: its text is dedented, and gets a name and a description where it has none."""

    def write(text: str, name: str = "story") -> Path:
        text = textwrap.dedent(text)
        head = "" if text.startswith("name:") else f"name: {name}\ndescription: A story. It is short.\n"
        path = tmp_path / f"{name}.yaml"
        path.write_text(head + text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def read_story(write_story: Callable[..., Path], known: Known) -> Callable[[str], Document]:
    """Read a story's text as its file is read."""
    return lambda text: load(write_story(text), known)


def expect_problems(path: Path, known: Known, problems: Sequence[str]) -> None:
    """Read a file that is no story; its problems, without the file's name, begin so."""
    with pytest.raises(DocumentError) as caught:
        load(path, known)

    assert caught.value.exit_status == 2
    for line, problem in zip(caught.value.lines, problems, strict=True):
        assert line.startswith(f"{path}:{problem}")


def seen_of(kind: type[Expectation], snapshot: Snapshot, trace: Trace | None = None, /, **wanted: Any) -> list[str]:
    """What was seen instead, for each mismatch."""
    expectation = kind.model_validate(wanted)
    return [mismatch.actual for mismatch in evaluate(expectation, snapshot, trace or Trace())]


@pytest.fixture
def node(tmp_path: Path) -> SimNode:
    """A simulated node without hardware."""
    made = SimNode(NodeSpec(name="node-1"), tmp_path)
    made.create()
    return made


@pytest.fixture
def trace() -> Trace:
    """What happens in a test; still empty."""
    return Trace()


async def entries(trace: Trace, kind: str, count: int) -> list[Entry]:
    """Wait for so many events of a kind; return all of that kind."""
    async with asyncio.timeout(LIMIT_S):
        while len(found := [event for event in trace if event.kind == kind]) < count:
            await trace.longer_than(len(trace))
    return found


def change(node: SimNode, trace: Trace, action: FileAction) -> None:
    """Do what a step says to a file of a node."""
    change_file(action, node, Snapshot(nodes={}, pods={}, plugins=()), trace)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Three A100: the first one with two MIG devices, the last one in MIG mode without any."""
    spec = GpuSpec.model_validate({**A100, "mig": [["1g.5gb", "3g.20gb"], "disabled", []]})
    return hardware.make_gpus(tmp_path / "machine", **spec.model_dump())


def perform(machine: Machine, action: NvidiaAction, snapshot: Snapshot | None = None) -> Any:
    """Do what a step says; return its event."""
    seen = snapshot or Snapshot(nodes={}, pods={}, plugins=())
    event, given = nvidia_change(action, "node-1", hardware.names(machine), seen)
    verb = type(action).__name__
    hardware.change(machine, verb[0].lower() + verb[1:], **given)
    return event


def program(*argv: str) -> Program:
    """What a plugin with this command needs on a node."""
    return programs_of([PluginSpec(name="mine", command=argv)], {})["mine"]


def script(folder: Path, first_line: str) -> str:
    """Write an executable file that begins with a line; return its path."""
    file = folder / "plugin"
    file.write_text(f"{first_line}\nexit 0\n")
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where clusters of the test have their folders; nothing is there yet."""
    with tempfile.TemporaryDirectory(prefix="up-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder, "simkubelet")


def skipped_in(report: Path) -> dict[str, str | None]:
    """Story of a run's JUnit file -> why it was skipped; None where it was not."""
    suite = ElementTree.parse(report).getroot()  # noqa: S314 - our own file
    found = ((case.get("name") or "", case.find("skipped")) for case in suite.iter("testcase"))
    return {name: None if skipped is None else skipped.get("message", "") for name, skipped in found}


def keys_of(part: object) -> Iterator[str]:
    """The keys of the story language that a story, or a part of one, uses: ``PodExpectation.phase``."""
    if isinstance(part, BaseModel):
        for key in part.model_fields_set:
            yield f"{type(part).__name__}.{key}"
            yield from keys_of(getattr(part, key))
    elif isinstance(part, Mapping):
        for value in part.values():
            yield from keys_of(value)
    elif isinstance(part, list | tuple | frozenset):
        for value in part:
            yield from keys_of(value)


def verbs_of(scenario: Scenario) -> Iterator[str]:
    """The verbs of a story's steps."""
    return (step.verb for step in scenario.steps)


def covering(
    scenarios: Mapping[str, Scenario],
    seconds: Mapping[str, float],
    used: Callable[[Scenario], Iterator[str]] = keys_of,
) -> set[str]:
    """Choose stories that together use every key that any of them uses, and take little time.

    Args:
        scenarios: Story -> what it says.
        seconds: Story -> how long it takes.
        used: The keys that a story uses.
    """
    keys = {story: frozenset(used(scenario)) for story, scenario in scenarios.items()}
    unused = frozenset[str]().union(*keys.values())
    chosen: set[str] = set()
    while unused:
        best = max(sorted(keys), key=lambda story: len(keys[story] & unused) / seconds[story])
        chosen.add(best)
        unused -= keys[best]
    return chosen


def is_about_kubelets(name: str, scenario: Scenario) -> bool:
    """Whether a built-in story is about what kubelets do, not about one plugin, a bug of one, or any plugin."""
    of_a_plugin = scenario.check is not None or (scenario.bug is not None and scenario.bug.component not in KUBERNETES)
    return name.partition("/")[0] not in PLUGINS and not of_a_plugin
