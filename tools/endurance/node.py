"""One simulated node with ten plugins that lives through faults drawn from a seed: pods come and go all the while.

The world, the steps and the invariants are those of a campaign's stories. There the next story is a new node; here the
same node, its kubelet's process and its plugins go on for a simulated day. After some hundred steps everything is
healed as at the end of a story. At that time the node has to be as it was after the first of these rounds, so there the
process is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scenarios.campaign.generator import Generator
from scenarios.campaign.plan import Plan, Step, World, healing
from scenarios.campaign.world import CampaignWorld
from scenarios.evaluation.evaluation import evaluate
from scenarios.story.expectations import Expectation
from scenarios.story.model import Scenario
from scenarios.story.model import Step as CheckedStep
from simkubelet.model.errors import InputError, PluginError
from simkubelet.model.pod_status import PodPhase

from .measurement import Measurement, measured

NODE: Final = "node-1"
_COLORS: Final = ("red", "blue", "green", "amber", "coral", "ivory", "khaki", "olive", "pearl", "umber")
_DEVICES: Final = 4
_CHECK_EACH: Final = 20
"""Steps between two looks at all that can be seen of the node."""
_SETTLES_WITHIN: Final = "11s"
_DEVICE_FAULTS: Final = 0.7
"""The share of steps that change the health of devices, the most frequent fault of a node."""
_EXITS: Final = 0.02
_MOST_PODS: Final = 12
_MOST_STATIC: Final = 3
_STEP_LIMIT_S: Final = 120.0
"""A guard only: a step that takes longer hangs."""
_NO_FAULTS: Final = frozenset(
    {
        *("apply", "delete", "addStaticPod", "removeStaticPod", "advance", "syncNodeStatus", "expect"),
        *("startKubelet", "startPlugin", "freeDisk", "resumeRuntime"),
    }
)
"""Verbs that break nothing."""


@dataclass(slots=True)
class Endurance:
    """A run: the settings, and what has become of it.

    Attributes:
        hours: Node time to pass at least.
        faults: Faults to inject at least.
        round_steps: Steps until everything is healed.
        count: Faults until now.
        by_verb: Verb -> how many steps of it were done.
        refused: Steps that could not be done, as a container that has ended already cannot exit.
        checks: Looks at the node at which everything agreed.
        findings: What did not agree, or did not end, with the number of the step.
    """

    seed: int
    hours: float
    faults: int
    round_steps: int = 1000
    count: int = 0
    steps: int = 0
    by_verb: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    checks: int = 0
    findings: list[str] = field(default_factory=list)
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311  # nobody is to be kept from guessing it

    async def run(self, directory: Path | None, take: Callable[[Measurement], None]) -> None:
        """Play rounds until there are enough faults and hours.

        Args:
            directory: Where the node's folder is made, with a short path; None for the place of temporary files.
            take: Called with the measurement at the end of each round.
        """
        plan = _plan()
        scenario = _scenario(plan)
        expectation = scenario.steps[0].expect
        assert expectation is not None  # noqa: S101  # it was written so
        began = time.process_time()
        generator = Generator(self._chance)
        async with CampaignWorld(scenario, directory) as node:
            await self._check(node, expectation)
            while self.count < self.faults or _hours(node) < self.hours:
                world = World(plan)
                for step in self._round(generator, world, node):
                    await self._do(node, step)
                    if self.steps % _CHECK_EACH == 0:
                        await self._check(node, expectation)
                await self._heal(node, world, expectation)
                take(measured(self.count, self.steps, _hours(node), time.process_time() - began))

    def _round(self, generator: Generator, world: World, node: CampaignWorld) -> Iterator[Step]:
        """The steps of a round; where there are many pods the oldest one goes first.

        A story draws exits for pods that have to run whatever happens; here any pod that runs may exit.
        """
        for _ in range(self.round_steps):
            if len(world.pods) > _MOST_PODS:
                yield _taken(world, {"delete": {"pod": next(iter(world.pods))}})
            if len(world.static) > _MOST_STATIC:
                where, pod = next(iter(world.static))
                yield _taken(world, {"removeStaticPod": {"pod": pod, "node": where}})
            running = [pod.key for pod in node.store.pods if pod.status.phase is PodPhase.RUNNING]
            draw = self._chance.random()
            if draw < _DEVICE_FAULTS and world.running and not world.stopped:
                yield self._device_fault(self._chance.choice(sorted(world.running)))
            elif draw > 1 - _EXITS and running:
                yield {"exitContainer": {"pod": self._chance.choice(running), "code": self._chance.choice((0, 1))}}
            else:
                yield generator.next_step(world)

    def _device_fault(self, running: tuple[str, str]) -> Step:
        """Devices of a plugin become unhealthy, and others are healthy again."""
        node, plugin = running
        health = ("Healthy", "Unhealthy")
        devices = [{"id": f"{plugin}-{index}", "health": self._chance.choice(health)} for index in range(_DEVICES)]
        return {"listDevices": {"plugin": plugin, "node": node, "devices": devices}}

    async def _do(self, node: CampaignWorld, step: Step) -> None:
        verb = next(iter(step))
        self.steps += 1
        action = CheckedStep.model_validate(step).action
        assert action is not None  # noqa: S101  # expectations are not done
        try:
            async with self._limited(verb):
                await node.perform(action)
        except (InputError, PluginError):
            self.refused += 1
            return
        except Exception as error:  # whatever escapes is a mistake of ours, which this run is to find
            self.findings.append(f"step {self.steps}: {verb}: {error!r}")
            return
        self.by_verb[verb] += 1
        self.count += verb not in _NO_FAULTS

    async def _check(self, node: CampaignWorld, expectation: Expectation) -> None:
        patience = node.patience(expectation.within)
        async with self._limited("expect"):
            while mismatches := evaluate(expectation, await node.observe(), node.trace):
                if not await patience.wait():
                    first = mismatches[0]
                    self.findings.append(f"step {self.steps}: expected {first.expected}; actual {first.actual}")
                    return
            self.checks += 1

    async def _heal(self, node: CampaignWorld, world: World, expectation: Expectation) -> None:
        """Heal and delete everything, see that pods run, and let the next round begin with no past."""
        for step in healing(world):
            if "expect" not in step:
                await self._do(node, step)
            elif (expected := CheckedStep.model_validate(step).expect) is not None:
                await self._check(node, expected)
        for pod in node.store.pods:
            node.store.delete_pod(pod.uid)
        await self._do(node, {"stopKubelet": {"node": NODE}})
        node.trace.forget()
        await self._do(node, {"startKubelet": {"node": NODE}})
        await self._check(node, expectation)

    @contextlib.asynccontextmanager
    async def _limited(self, verb: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(_STEP_LIMIT_S):
                yield
        except TimeoutError:
            self.findings.append(f"step {self.steps}: {verb} does not end")


def _taken(world: World, step: Step) -> Step:
    world.take(step)
    return step


def _hours(node: CampaignWorld) -> float:
    return node.trace[-1].time_s / 3600


def _plan() -> Plan:
    plugins = [
        {"name": color, "builtin": "stub", "serves": _serves(number, color)} for number, color in enumerate(_COLORS)
    ]
    return Plan(({"name": NODE},), tuple(plugins), ())


def _serves(number: int, color: str) -> dict[str, object]:
    """What a plugin serves; each other one is called for preferences, each third one before a start."""
    return {
        "resource": f"example.com/{color}",
        "devices": [{"id": f"{color}-{index}"} for index in range(_DEVICES)],
        "preferredAllocation": number % 2 == 0,
        "preStart": number % 3 == 0,
        **({"onLostStream": "exit"} if number % 5 == 0 else {}),
    }


def _scenario(plan: Plan) -> Scenario:
    return Scenario.model_validate(
        {
            "name": "endurance",
            "description": "One node for a simulated day.",
            "nodes": [dict(node) for node in plan.nodes],
            "plugins": [dict(plugin) for plugin in plan.plugins],
            "steps": [{"expect": {"node": NODE, "consistent": True, "within": _SETTLES_WITHIN}}],
        }
    )
