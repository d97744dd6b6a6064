"""What the simulator cannot do on a machine without bubblewrap or mount namespaces, known before a story begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.sim.backend import SimBackend
from scenarios.evaluation.verdict import Outcome
from scenarios.play.runner import play
from scenarios.story.part import Capability
from simkubelet._internal import sandbox
from simkubelet.cluster.cel.environment import environment

STEPS = "steps:\n- advance: 1s\n"
PROCESSES = f"nodes: [{{name: a, runtime: process}}]\n{STEPS}"
FOREIGN = f"plugins: [{{name: mine, command: [sh]}}]\n{STEPS}"
FILE_WITH_CONTENT = (
    f"nodes: [{{name: a, files: [{{path: /etc/x, content: y}}]}}]\nplugins: [{{name: g, builtin: gopher}}]\n{STEPS}"
)
MIG = (
    "nodes: [{name: a, gpus: {profile: t4, count: 1, mig: [[1g.10gb]]}}]\n"
    f"plugins: [{{name: n, builtin: nvidia}}]\n{STEPS}"
)
SELECTOR = (
    "steps: [{create: {apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: "
    '{requests: [{name: r, exactly: {deviceClassName: d, selectors: [{cel: {expression: "true"}}]}}]}}}}]\n'
)
EMPTY_FILE = f"nodes: [{{name: a, files: [/etc/gophers/g]}}]\nplugins: [{{name: g, builtin: gopher}}]\n{STEPS}"
WORKS = "#!/bin/sh\nexit 0\n"
REFUSED = "#!/bin/sh\necho not permitted >&2\nexit 1\n"
UNSUPERVISED = "#!/bin/sh\n[ $# = 0 ] && exit 0\necho not permitted >&2\nexit 1\n"
"""A kernel that makes namespaces, and lets nobody trace a program."""

World = Callable[..., SimBackend]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A machine on whose PATH are just these programs, each with its text, and what its kernel says to a namespace."""

    def give(kernel: str, **programs: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in {"launcher": kernel, **programs}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(sandbox, "_LAUNCHER", (str(folder / "launcher"),))

    return give


@pytest.fixture
def world_of(read_story: Any) -> World:
    def make(text: str, plugin_commands: Mapping[str, tuple[str, ...]] | None = None) -> SimBackend:
        scenario = read_story(text).scenario
        return SimBackend(scenario, directory=None, keep=False, plugin_commands=plugin_commands or {})

    return make


@pytest.mark.parametrize("text", [PROCESSES, FOREIGN, FILE_WITH_CONTENT, EMPTY_FILE, SELECTOR])
def test_machine_that_has_all_can_play_all(machine: Callable[..., None], world_of: World, text: str) -> None:
    machine(kernel=WORKS, bwrap=WORKS)

    world = world_of(text)

    assert (world.capabilities, world.remedies) == (frozenset(Capability), {})


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        pytest.param(PROCESSES, {Capability.PROCESS_RUNTIME}, id="containers that run"),
        pytest.param(FOREIGN, {Capability.NODE_VIEW}, id="a program of the user"),
        pytest.param(FILE_WITH_CONTENT, {Capability.NODE_VIEW}, id="a file with content"),
        pytest.param(EMPTY_FILE, set(), id="an empty file"),
    ],
)
def test_machine_without_bwrap_and_namespaces_lacks_what_a_story_needs(
    machine: Callable[..., None], world_of: World, text: str, lacking: set[Capability]
) -> None:
    machine(kernel=REFUSED)

    world = world_of(text)

    assert frozenset(Capability) - world.capabilities == lacking
    assert world.remedies.keys() == lacking


@pytest.mark.parametrize(("text", "lacking"), [(SELECTOR, {Capability.DEVICE_SELECTORS}), (STEPS, set())])
def test_machine_without_cel_lacks_selectors(
    world_of: World, monkeypatch: pytest.MonkeyPatch, text: str, lacking: set[Capability]
) -> None:
    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)

    world = world_of(text)

    assert world.remedies.keys() == frozenset(Capability) - world.capabilities == lacking
    assert all(remedy.endswith(": pip install cel-expr-python") for remedy in world.remedies.values())


@pytest.mark.parametrize(("text", "kernel", "bwrap"), [(PROCESSES, UNSUPERVISED, REFUSED), (FOREIGN, REFUSED, WORKS)])
def test_refused_namespace_is_known_with_its_reason(
    machine: Callable[..., None], world_of: World, text: str, kernel: str, bwrap: str
) -> None:
    machine(kernel=kernel, bwrap=bwrap)

    (remedy,) = world_of(text).remedies.values()

    assert "not permitted" in remedy


@pytest.mark.parametrize(("user", "lacking"), [(0, set()), (1000, {Capability.NODE_VIEW})])
def test_user_needs_a_namespace_to_be_root_for_mig_devices(
    machine: Callable[..., None], world_of: World, monkeypatch: pytest.MonkeyPatch, user: int, lacking: set[Capability]
) -> None:
    machine(kernel=REFUSED)
    monkeypatch.setattr(os, "geteuid", lambda: user)

    assert world_of(MIG).remedies.keys() == lacking


def test_program_that_the_user_gave_is_tried_in_any_case(machine: Callable[..., None], world_of: World) -> None:
    machine(kernel=REFUSED)

    assert world_of(FOREIGN, {"mine": ("./mine",)}).remedies == {}


async def test_story_is_skipped_with_what_the_machine_lacks(machine: Callable[..., None], read_story: Any) -> None:
    machine(kernel=REFUSED)
    document = read_story(PROCESSES)

    verdict = await play(document, SimBackend(document.scenario, directory=None, keep=False, plugin_commands={}))

    assert (verdict.outcome, verdict.reason) == (
        Outcome.SKIPPED,
        "this machine cannot run the processes of containers",
    )
    assert [remedy.partition(":")[0] for remedy in verdict.remedies] == ["bwrap not found"]
