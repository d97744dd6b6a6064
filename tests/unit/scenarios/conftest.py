"""Feeds in: story files, and a world of prepared frames. Observed: verdicts, what the world was asked to do, the trace.

A `FakeWorld` shows its frames one after the other; each wait of an expectation's patience takes one second of its time
and moves it one frame on. The last frame stays.

`run_cli` is the command line in this process; `played` puts such worlds into the backend's place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import pytest

from scenarios.backends.backend import Backend, Patience
from scenarios.story.part import Action, Capability
from scenarios.trace.snapshot import NodeView, PluginState, PluginView, PodEvent, PodView, Snapshot
from scenarios.trace.trace import Trace
from simkubelet._internal import bundle
from simkubelet.cli import main
from simkubelet.devices.pod_devices import DeviceRunOptions
from tests.support.recorded import two_stories
from tests.support.stories import home, known, machine, node, read_story, trace, write_story

__all__ = [
    "GPU",
    "FakeWorld",
    "Frames",
    "frames",
    "home",
    "jobs",
    "known",
    "machine",
    "node",
    "played",
    "read_story",
    "run_cli",
    "trace",
    "two_stories",
    "world",
    "write_story",
]

GPU = "nvidia.com/gpu"


class FakePatience:
    def __init__(self, world: FakeWorld, within_s: float) -> None:
        self._world = world
        self._left_s = within_s
        self.is_starved = world.is_starved

    async def wait(self) -> bool:
        if self._left_s < 1:
            return False
        self._left_s -= 1
        self._world.pass_second()
        return True


class FakeWorld:
    def __init__(
        self,
        frames: Sequence[Snapshot],
        capabilities: frozenset[Capability] = frozenset(Capability),
        errors: Mapping[str, BaseException] | None = None,
        is_starved: bool = False,
    ) -> None:
        self.now_s = 0.0
        self.is_starved = is_starved
        self.trace = Trace(now=lambda: self.now_s)
        self.capabilities = capabilities
        self.remedies: Mapping[Capability, str] = {}
        self.kept: Path | None = None
        self.logs: tuple[Path, ...] = ()
        self.places: Mapping[str, str] = {"node-1 folder": "/tmp/sk-1/node-1"}
        self.performed: list[Action] = []
        self.is_entered = False
        self.is_left = False
        self.left_with: BaseException | None = None
        self._frames = list(frames)
        self._errors = errors or {}

    async def __aenter__(self) -> Self:
        self.is_entered = True
        self._raise_for("enter")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self.is_left, self.left_with = True, error
        self._raise_for("leave")

    async def perform(self, action: Action) -> None:
        self._raise_for(action.verb)
        self.performed.append(action)

    async def observe(self) -> Snapshot:
        return self._frames[0]

    def patience(self, within_s: float) -> Patience:
        return FakePatience(self, within_s)

    def pass_second(self) -> None:
        self.now_s += 1
        if len(self._frames) > 1:
            self._frames.pop(0)

    def _raise_for(self, occasion: str) -> None:
        if occasion in self._errors:
            raise self._errors[occasion]


def _is_a_backend(world: FakeWorld) -> Backend:
    return world


@pytest.fixture
def world() -> type[FakeWorld]:
    return FakeWorld


class Frames:
    """Makes snapshots of a world with one node, one plugin and some pods."""

    def node(self, capacity: int | None = 8, allocatable: int | None = 8, kubernetes: str = "1.34") -> NodeView:
        return NodeView(
            "node-1",
            kubernetes,
            {} if capacity is None else {GPU: capacity},
            {} if allocatable is None else {GPU: allocatable},
        )

    def pod(
        self,
        name: str = "trainer",
        phase: str = "Running",
        ids: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        events: Sequence[PodEvent] = (),
        reason: str = "",
        message: str = "",
    ) -> PodView:
        node = "node-1" if phase == "Running" else ""
        return PodView(
            name,
            phase,
            reason,
            message,
            node,
            {"main": {GPU: tuple(ids)}},
            {"main": DeviceRunOptions(envs=env or {})},
            tuple(events),
        )

    def plugin(self, state: PluginState = PluginState.RUNNING, restarts: int = 0, registrations: int = 1) -> PluginView:
        return PluginView("nvidia", "node-1", state, restarts, registrations)

    def frame(self, *pods: PodView, node: NodeView | None = None, plugin: PluginView | None = None) -> Snapshot:
        return Snapshot({"node-1": node or self.node()}, {pod.name: pod for pod in pods}, (plugin or self.plugin(),))


@pytest.fixture
def frames() -> Frames:
    return Frames()


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, known: object) -> ModuleType:
    """The module that makes backends, with fixed names of versions and profiles."""
    module = bundle.load("scenarios", "play.job")
    for part in (module, bundle.load("scenarios", "story.document")):
        monkeypatch.setattr(part, "installed", lambda: known)
    return module


@pytest.fixture
def played(jobs: ModuleType, monkeypatch: pytest.MonkeyPatch, world: Any, frames: Any) -> list[tuple[Any, Any]]:
    """Story documents and options in the order in which worlds were made for them; every node has 8 GPUs."""
    made: list[tuple[Any, Any]] = []

    def make(document: Any, options: Any) -> Any:
        made.append((document, options))
        return world([frames.frame()])

    monkeypatch.setattr(jobs, "_backend", make)
    return made


@pytest.fixture
def run_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run
