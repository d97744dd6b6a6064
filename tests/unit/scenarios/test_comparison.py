"""Two worlds continue after a story until both have recorded the same, or one never does."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.play.comparison import Comparison
from scenarios.story.model import Scenario
from scenarios.story.part import Action, Capability
from scenarios.story.verbs.node_action import Advance
from scenarios.trace.trace import Trace
from simkubelet.model.events import PodStatusUpdated

_SCENARIO = Scenario.model_validate(
    {
        "name": "one-pod",
        "description": "One pod.",
        "nodes": [{"name": "node-1"}],
        "plugins": [{"name": "gpu", "builtin": "gopher"}],
        "steps": [{"expect": {"node": "node-1", "kubelet": "running"}}],
    }
)


class World:
    """A backend in which each wait, and each step of time, brings the next phase of a pod."""

    def __init__(self, *phases: str, capabilities: frozenset[Capability] = frozenset()) -> None:
        self.trace = Trace()
        self.capabilities = capabilities
        self.waits = 0
        self._phases = iter(phases)

    async def perform(self, action: Action) -> None:
        assert isinstance(action, Advance)
        await self.wait()

    def patience(self, within_s: float) -> World:
        return self

    async def wait(self) -> bool:
        self.waits += 1
        phase = next(self._phases, "")
        if phase:
            self.tell(phase)
        return bool(phase)

    def tell(self, phase: str) -> None:
        self.trace.append(PodStatusUpdated("pod", phase, "", ""))

    def end_of_story(self) -> None:
        from scenarios.trace.events import ExpectationMet

        self.trace.append(ExpectationMet(1))


async def compared(simulated: World, real: World) -> Any:
    comparison = Comparison(_SCENARIO)
    for world, go_on in ((simulated, comparison.simulate_on), (real, comparison.wait_for_the_same)):
        world.end_of_story()
        await go_on(world)  # type: ignore[arg-type]
    return comparison.divergence


@pytest.mark.parametrize(("phases", "waits"), [(["Running"], 1), (["Running", "Failed"], 1)])
async def test_cluster_continues_until_it_has_recorded_the_same(phases: list[str], waits: int) -> None:
    simulated, real = World(), World(*phases)
    simulated.tell("Running")

    assert await compared(simulated, real) is None
    assert real.waits == waits


async def test_simulator_continues_and_may_record_more() -> None:
    simulated, real = World("Running", "Failed"), World()
    real.tell("Running")

    assert await compared(simulated, real) is None
    assert real.waits == 0


async def test_what_never_comes_is_a_difference() -> None:
    simulated, real = World(), World("Failed")
    simulated.tell("Running")

    divergence = await compared(simulated, real)

    assert divergence is not None
    assert divergence.lane == "pod pod"
    assert real.waits == 2


async def test_cluster_whose_node_time_can_pass_lets_it_pass_as_the_simulator_does() -> None:
    simulated, real = World(), World("Running", "Failed", capabilities=frozenset({Capability.ADVANCE_TIME}))
    simulated.tell("Running")

    assert await compared(simulated, real) is None
    assert real.waits == 2
