"""Every built-in story over real sockets, with plugins as real processes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scenarios.trace import Event, read_lines

CATALOG = Path(__file__).resolve().parents[2] / "scenarios" / "catalog"
STORIES = sorted(path.stem for path in CATALOG.rglob("*.yaml"))
GPU_STORIES = ["device-unhealthy", "kubelet-restart"]


def trace_of(run: Any) -> list[Event]:
    return [event for _, event in read_lines((run.scratch / "trace.jsonl").read_text().splitlines())]


def assert_passed(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def of(events: list[Event], kind: str) -> list[Any]:
    return [event.fields for event in events if event.kind == kind]


@pytest.mark.parametrize("story", STORIES)
def test_story_passes_and_leaves_nothing_behind(run: Any, story: str) -> None:
    done = run(f"simkubelet run {story}")

    assert_passed(done)
    assert "PASSED" in done.stdout
    assert run.leftovers() == []


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("minor", ["1.28", "1.31"])
def test_story_passes_on_older_kubernetes_in_its_words(run: Any, story: str, minor: str) -> None:
    done = run(f"simkubelet run {story} --kubernetes {minor}")

    assert_passed(done)


@pytest.mark.nvidia_go
@pytest.mark.parametrize("story", GPU_STORIES)
def test_story_passes_with_nvidias_own_plugin(run: Any, nvidia_plugin: str, story: str) -> None:
    done = run(f"simkubelet run {story} --plugin 'nvidia={nvidia_plugin}' --trace trace.jsonl")

    assert_passed(done)
    assert run.leftovers() == []
    assert {fields["endpoint"] for fields in of(trace_of(run), "plugin-registered")} == {"nvidia-gpu.sock"}


@pytest.mark.nvidia_go
def test_both_nvidia_plugins_tell_the_kubelet_the_same(run: Any, nvidia_plugin: str) -> None:
    told = []
    for swap in ("", f"--plugin 'nvidia={nvidia_plugin}'"):
        assert run(f"simkubelet run kubelet-restart {swap} --trace trace.jsonl").returncode == 0
        events = trace_of(run)
        counts = [(len(fields["healthy"]), len(fields["unhealthy"])) for fields in of(events, "devices-listed")]
        allocated = [len(fields["devices"]) for fields in of(events, "devices-allocated")]
        told.append((of(events, "plugin-registered"), counts, allocated))

    assert told[0] == told[1]


def test_xid_79_reaches_the_list_and_xid_13_does_not(run: Any) -> None:
    assert run("simkubelet run device-unhealthy --trace trace.jsonl").returncode == 0

    events = trace_of(run)
    faults = {fields["xid"]: fields["gpu"] for fields in of(events, "fault-injected")}
    assert faults.keys() == {13, 79}
    assert [fields["unhealthy"] for fields in of(events, "devices-listed")] == [[], [faults[79]]]


def test_supervisor_starts_gopher_again_after_a_kubelet_restart(run: Any) -> None:
    assert run("simkubelet run gopher-pending --trace trace.jsonl").returncode == 0

    events = trace_of(run)
    (restart,) = [event.seq for event in events if event.kind == "kubelet-stopped"][:1]
    lives = [(event.kind, event.fields.get("status")) for event in events[restart:] if event.kind.startswith("plugin-")]
    assert lives[:3] == [("plugin-exited", 0), ("plugin-started", None), ("plugin-registered", None)]


def test_all_stories_in_parallel_with_every_kind_of_output(run: Any) -> None:
    done = run("simkubelet run -n 3 --junit report.xml --trace trace.jsonl")

    assert_passed(done)
    suite = ElementTree.parse(run.scratch / "report.xml").getroot()  # noqa: S314 - our own file
    assert sorted(case.get("name") for case in suite.iter("testcase")) == STORIES
    lines = [json.loads(line) for line in (run.scratch / "trace.jsonl").read_text().splitlines()]
    assert {line["story"] for line in lines} == set(STORIES)
    assert run.leftovers() == []


def test_kept_folder_has_the_kubelets_checkpoint_and_the_plugins_words(run: Any) -> None:
    assert run("simkubelet run kubelet-restart --keep").returncode == 0

    (folder,) = run.scratch.glob("sk-*")
    assert (
        '"ResourceName":"nvidia.com/gpu"'
        in (folder / "node-1" / "device-plugins" / "kubelet_internal_checkpoint").read_text()
    )
    assert (folder / "node-1" / "logs" / "nvidia.log").stat().st_size > 0
