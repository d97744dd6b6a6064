from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scenarios.evaluation.verdict import Outcome, UnmetError
from scenarios.play.runner import _waited, play
from scenarios.story.document import Document
from scenarios.story.part import Capability
from scenarios.trace.events import StepStarted
from simkubelet.model.errors import HostError, InputError, PluginError

Read = Callable[[str], Document]

EXPECT_8 = "- expect: {node: node-1, capacity: {nvidia.com/gpu: 8}, within: 3s}\n"
APPLY = (
    "- apply: {apiVersion: v1, kind: Pod, metadata: {name: trainer}, spec: {containers: [{name: main, image: x}]}}\n"
)


async def test_story_whose_expectations_come_true_is_valid(read_story: Read, world: Any, frames: Any) -> None:
    document = read_story(f"steps:\n{EXPECT_8}{APPLY}- restartKubelet: {{}}\n")
    a_world = world([frames.frame(node=frames.node(None)), frames.frame(node=frames.node(0)), frames.frame()])
    told: list[str] = []

    verdict = await play(document, a_world, told.append)

    assert (verdict.outcome, verdict.reason, verdict.failure) == (Outcome.VALID, "", None)
    assert [type(action).__name__ for action in a_world.performed] == ["Apply", "RestartKubelet"]
    assert told == ["expect node node-1", "apply pod trainer", "restartKubelet"]
    assert [event.kind for event in a_world.trace] == [
        "step-started",
        "expectation-met",
        "step-started",
        "step-started",
    ]
    assert a_world.now_s == 2
    assert a_world.is_left


async def test_failure_shows_place_path_and_what_was_seen_last(read_story: Read, world: Any, frames: Any) -> None:
    document = read_story(f"steps:\n{EXPECT_8}{APPLY}")
    a_world = world([frames.frame(node=frames.node(number)) for number in (None, 0, 5)])

    verdict = await play(document, a_world)

    assert verdict.outcome is Outcome.INVALID
    assert verdict.reason == "expect node node-1: capacity[nvidia.com/gpu]: expected 8; actual 5"
    assert verdict.failure is not None
    assert verdict.failure.location.endswith("story.yaml:4")
    assert verdict.failure.step == "expect node node-1"
    (mismatch,) = verdict.failure.mismatches
    assert (verdict.failure.number, verdict.failure.total) == (1, 2)
    assert mismatch.path == ("expect", "capacity", "nvidia.com/gpu")
    assert (mismatch.expected, mismatch.actual) == ("8", "5")
    assert [event.kind for event in verdict.failure.events] == ["step-started", "expectation-failed"]
    assert a_world.performed == []
    assert a_world.now_s == 3


@pytest.mark.parametrize(
    ("times", "capacities", "expected"),
    [
        pytest.param("within: 3s", [0], r"waited \d+\.\d\d s \(within: 3s\)", id="within"),
        pytest.param("within: 1m30s", [0], r"waited \d+\.\d\d s \(within: 1m30s\)", id="minutes"),
        pytest.param("holds: 2s", [8, 0], r"held for \d+\.\d\d s \(holds: 2s\)", id="holds"),
    ],
)
async def test_failure_says_how_long_was_waited(
    read_story: Read, world: Any, frames: Any, times: str, capacities: list[int], expected: str
) -> None:
    document = read_story(f"steps:\n- expect: {{node: node-1, capacity: {{nvidia.com/gpu: 8}}, {times}}}\n")

    verdict = await play(document, world([frames.frame(node=frames.node(number)) for number in capacities]))

    assert verdict.failure is not None
    assert re.fullmatch(expected, verdict.failure.waited)


async def test_failure_has_a_diagnosis_where_one_is_known(read_story: Read, world: Any, frames: Any) -> None:
    silent = frames.frame(node=frames.node(0), plugin=frames.plugin(registrations=0))

    verdict = await play(read_story(f"steps:\n{EXPECT_8}"), world([silent]))

    (diagnosis,) = verdict.failure.diagnoses
    assert diagnosis == "plugin 'nvidia' runs but has not registered with the kubelet"
    assert verdict.reason.endswith(f"actual 0; {diagnosis}")


async def test_verdict_of_a_failed_story_has_the_ends_of_its_logs(
    read_story: Read, world: Any, frames: Any, tmp_path: Path
) -> None:
    a_world = world([frames.frame(node=frames.node(0))])
    log = tmp_path / "nvidia.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    a_world.logs = (log,)

    verdict = await play(read_story(f"steps:\n{EXPECT_8}"), a_world)

    assert verdict.logs == a_world.logs
    assert verdict.log_ends == {log: tuple(f"line {number}" for number in range(92, 100))}
    assert isinstance(a_world.left_with, UnmetError)


async def test_world_of_a_failed_story_can_be_looked_at_before_it_is_left(
    read_story: Read, world: Any, frames: Any
) -> None:
    looks: list[tuple[bool, str]] = []

    async def look(backend: Any, reason: str) -> None:
        backend.trace.append(StepStarted(9, "a look"))
        looks.append((backend.is_left, reason))

    a_world = world([frames.frame()], errors={"advance": InputError("it cannot be")})
    failed = await play(read_story("steps:\n- advance: 5m\n"), a_world, at_failure=look)
    await play(read_story(f"steps:\n{EXPECT_8}"), world([frames.frame()]), at_failure=look)

    assert looks == [(False, "it cannot be")]
    assert [entry.event.title for entry in failed.failure.events] == ["advance"]


async def test_expectation_that_a_busy_machine_left_no_time_for_says_nothing(
    read_story: Read, world: Any, frames: Any
) -> None:
    document = read_story(f"steps:\n{EXPECT_8}")

    verdict = await play(document, world([frames.frame(node=frames.node(5))], is_starved=True))

    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.reason == (
        "expect node node-1: capacity[nvidia.com/gpu]: expected 8; actual 5; the machine was too busy meanwhile to say "
        "why: play fewer stories at a time, with -n"
    )


@pytest.mark.parametrize(
    ("capacities", "outcome", "end_s"),
    [
        pytest.param([0, 8, 8, 8, 8], Outcome.VALID, 3, id="holds"),
        pytest.param([8, 8, 7, 8], Outcome.INVALID, 2, id="does not hold"),
        pytest.param([8, 8, 8, 7], Outcome.VALID, 2, id="held for long enough"),
    ],
)
async def test_what_must_hold_is_looked_at_until_it_has_held(
    read_story: Read, world: Any, frames: Any, capacities: list[int], outcome: Outcome, end_s: float
) -> None:
    document = read_story("steps:\n- expect: {node: node-1, capacity: {nvidia.com/gpu: 8}, holds: 2s}\n")
    a_world = world([frames.frame(node=frames.node(capacity)) for capacity in capacities])

    verdict = await play(document, a_world)

    assert (verdict.outcome, a_world.now_s) == (outcome, end_s)


async def test_story_that_the_backend_cannot_play_is_skipped_unentered(
    read_story: Read, world: Any, frames: Any
) -> None:
    document = read_story("steps:\n- restartKubelet: {}\n- advance: 5m\n")
    a_world = world([frames.frame()], capabilities=frozenset({Capability.FAKE_GPUS}))

    verdict = await play(document, a_world)

    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.reason == "the backend cannot let node time pass at will, restart a kubelet"
    assert not a_world.is_entered


@pytest.mark.parametrize("occasion", ["enter", "advance", "leave"])
@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        pytest.param(PluginError("it broke"), Outcome.INVALID, id="plugin"),
        pytest.param(HostError("it broke"), Outcome.UNKNOWN, id="host"),
        pytest.param(InputError("it broke"), Outcome.ERROR, id="input"),
        pytest.param(ExceptionGroup("", [PluginError("x"), HostError("it broke")]), Outcome.UNKNOWN, id="both"),
    ],
)
async def test_error_of_the_world_becomes_a_verdict(
    read_story: Read, world: Any, frames: Any, occasion: str, error: Exception, outcome: Outcome
) -> None:
    document = read_story(f"steps:\n{EXPECT_8}- advance: 5m\n")

    verdict = await play(document, world([frames.frame()], errors={occasion: error}))

    assert (verdict.outcome, verdict.reason) == (outcome, "it broke")
    assert verdict.failure is not None
    assert verdict.failure.location.endswith(":1" if occasion == "enter" else ":5")
    assert verdict.failure.step == ("start" if occasion == "enter" else "advance")


async def test_our_own_bugs_are_no_verdicts(read_story: Read, world: Any, frames: Any) -> None:
    a_world = world([frames.frame()], errors={"advance": ZeroDivisionError()})

    with pytest.raises(ZeroDivisionError):
        await play(read_story("steps:\n- advance: 5m\n"), a_world)

    assert a_world.is_left


async def test_story_that_takes_longer_than_its_timeout_is_unknown(read_story: Read, world: Any, frames: Any) -> None:
    a_world = world([frames.frame()])

    async def never(action: object) -> None:
        await asyncio.Event().wait()

    a_world.perform = never

    verdict = await play(read_story("steps:\n- advance: 5m\n"), a_world, timeout_s=0.01)

    assert (verdict.outcome, verdict.reason) == (Outcome.UNKNOWN, "the story takes longer than 10ms (--timeout)")
    assert verdict.failure.location.endswith(":4")
    assert isinstance(a_world.left_with, HostError)


async def test_cancelled_story_leaves_its_world(read_story: Read, world: Any, frames: Any) -> None:
    document = read_story(f"steps:\n{EXPECT_8}- advance: 5m\n")
    a_world = world([frames.frame()], errors={"advance": asyncio.CancelledError()})

    with pytest.raises(asyncio.CancelledError):
        await play(document, a_world)

    assert a_world.is_left


async def test_run_ends_although_a_world_keeps_its_end_to_itself(read_story: Read, world: Any, frames: Any) -> None:
    document = read_story("steps:\n- advance: 5m\n")
    a_world = world([frames.frame()])

    async def leave(_: object) -> None:
        story.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)

    story = asyncio.ensure_future(play(document, a_world, afterwards=leave))
    await asyncio.wait([story])

    assert story.cancelled()
    assert a_world.is_left


@pytest.mark.parametrize(
    ("standstill_s", "error", "expected"),
    [
        pytest.param(0.1, PluginError("plugin 'gopher' ended"), Outcome.INVALID, id="for a moment"),
        pytest.param(2.6, PluginError("plugin 'gopher' ended"), Outcome.UNKNOWN, id="long, plugin"),
        pytest.param(2.6, InputError("no GPU 9"), Outcome.ERROR, id="long, wrong story"),
        pytest.param(2.6, None, Outcome.VALID, id="long, all went well"),
    ],
)
async def test_failure_of_a_story_whose_kubelets_could_not_run_says_nothing(
    read_story: Read, world: Any, frames: Any, standstill_s: float, error: Exception | None, expected: Outcome
) -> None:
    document = read_story("steps:\n- advance: 5m\n")

    async def stand_still(_: object) -> None:
        await asyncio.sleep(0)
        time.sleep(standstill_s)  # noqa: ASYNC251  # what a busy machine does
        await asyncio.sleep(0.6)
        if error is not None:
            raise error

    verdict = await play(document, world([frames.frame()]), afterwards=stand_still)

    assert verdict.outcome is expected
    assert ("too busy" in verdict.reason) is (expected is Outcome.UNKNOWN)


MANUAL = "plugins: [{name: p, builtin: gopher, start: manual}]\n"


@pytest.mark.parametrize(
    ("text", "capabilities"),
    [
        pytest.param(f"steps:\n{APPLY}- delete: {{pod: trainer}}", set(), id="pods alone"),
        pytest.param("steps:\n- restartKubelet: {}", {"RESTART_KUBELET"}, id="restart"),
        pytest.param("steps:\n- advance: 1s", {"ADVANCE_TIME"}, id="time"),
        pytest.param("steps:\n- createFile: {path: /a}", {"NODE_FILES"}, id="file"),
        pytest.param("steps:\n- removeFile: {path: /a}", {"NODE_FILES"}, id="file removed"),
        pytest.param(
            "nodes: [{name: a, files: [/a]}, {name: b}]\n"
            "plugins: [{name: p, builtin: gopher}, {name: q, command: [x]}]\n"
            "steps:\n- restartKubelet: {node: a}",
            {"NODE_FILES", "SEVERAL_NODES", "BUILTIN_PLUGINS", "COMMAND_PLUGINS", "NODE_VIEW", "RESTART_KUBELET"},
            id="world",
        ),
        pytest.param(
            "nodes: [{name: a, gpus: {profile: t4, count: 1}}]\nsteps:\n- heal: {gpu: 0}",
            {"FAKE_GPUS", "GPU_FAULTS"},
            id="GPUs",
        ),
        pytest.param(
            "nodes: [{name: a, topology: {scope: pod}}]\nsteps:\n- advance: 1s",
            {"KUBELET_SETTINGS", "ADVANCE_TIME"},
            id="topology",
        ),
        pytest.param(
            "nodes: [{name: a, featureGates: {ResourceHealthStatus: true}}]\nsteps:\n- advance: 1s",
            {"KUBELET_SETTINGS", "API_FEATURE_GATES", "ADVANCE_TIME"},
            id="gate of the API server",
        ),
        pytest.param(
            "runtimeConfig: {api/beta: true}\nplugins: [{name: p, builtin: volcano}]\nsteps:\n- advance: 1s",
            {"API_VERSIONS", "ADVANCE_TIME", "BUILTIN_PLUGINS", "NODE_VIEW"},
            id="versions of the API server",
        ),
        pytest.param(
            "nodes: [{name: a, numaNodes: 2}]\nsteps:\n- advance: 1s",
            {"FAKE_NUMA_NODES", "ADVANCE_TIME"},
            id="NUMA nodes",
        ),
        pytest.param(
            "nodes: [{name: a, maxMessageBytes: 8388608}]\nsteps:\n- advance: 1s",
            {"MESSAGE_LIMIT", "ADVANCE_TIME"},
            id="larger messages",
        ),
        pytest.param(
            "nodes: [{name: a, runtime: process}]\nsteps:\n- advance: 1s",
            {"PROCESS_RUNTIME", "ADVANCE_TIME"},
            id="processes",
        ),
        pytest.param(
            f"{MANUAL}steps:\n- stopKubelet: {{}}\n- startPlugin: {{plugin: p}}\n- startKubelet: {{}}",
            {"BUILTIN_PLUGINS", "NODE_VIEW", "PLUGIN_PROCESSES", "RESTART_KUBELET", "PLUGIN_BEFORE_KUBELET"},
            id="plugin before the kubelet",
        ),
        pytest.param(
            f"{MANUAL}steps:\n- stopKubelet: {{}}\n- startKubelet: {{}}\n- startPlugin: {{plugin: p}}",
            {"BUILTIN_PLUGINS", "NODE_VIEW", "PLUGIN_PROCESSES", "RESTART_KUBELET"},
            id="plugin after the kubelet",
        ),
    ],
)
def test_needed_capabilities(read_story: Read, text: str, capabilities: set[str]) -> None:
    assert {capability.name for capability in read_story(text).scenario.needed} == capabilities


async def test_story_about_other_versions_is_skipped_unentered(read_story: Read, world: Any, frames: Any) -> None:
    document = read_story("kubernetes: '<1.28'\nsteps:\n- restartKubelet: {}\n")
    a_world = world([frames.frame()])

    verdict = await play(document, a_world)

    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.reason == "it is about Kubernetes <1.28, not 1.34"
    assert not a_world.is_entered


@pytest.mark.parametrize(
    ("real_s", "words"),
    [
        (10.1, "waited 10.10 s (within: 10s)"),
        (30.02, "waited 30.02 s (within: 10s; longer, as this machine is busy)"),
    ],
)
def test_failure_says_why_it_waited_longer(real_s: float, words: str) -> None:
    assert _waited(real_s, 10) == words
