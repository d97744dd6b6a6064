"""Every built-in story over real sockets, with plugins as real processes."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from plugin.cli import PLUGINS
from scenarios.backends.kind.backend import CAPABILITIES
from scenarios.evaluation.verdict import Outcome, Verdict
from scenarios.play.job import Options, at_a_time, play_job, prepare
from scenarios.story import stories
from scenarios.story.document import load
from scenarios.trace.events import FaultInjected
from scenarios.trace.trace import E, Entry, read_lines
from simkubelet.model.events import DevicesAllocated, DevicesListed, PluginRegistered
from simkubelet.model.version import DEFAULT, SUPPORTED, Difference, version
from tests.support import recorded
from tests.support.stories import IS_ABOUT_OTHERS, covering, is_about_kubelets, skipped_in
from tools.generate import version_table

STORIES = list(stories.builtin())
RECORDED = list(recorded.recorded())
"""The stories that clusters recorded, each with the version."""
FIRST_STORIES = ["device-unhealthy", "gopher-pending", "kubelet-restart"]
GPU_STORIES = ["device-unhealthy", "kubelet-restart"]
SCENARIOS = {name: load(path).scenario for name, path in stories.builtin().items()}
VERSIONS = {name: scenario.versions for name, scenario in SCENARIOS.items() if scenario.versions is not None}
"""Stories that are played on several versions without being asked to."""
OF_KUBELETS = [story for story in STORIES if is_about_kubelets(story, SCENARIOS[story])]
OF_PLUGINS = [story for story in STORIES if story not in OF_KUBELETS]
ASKED: ContextVar[version_table.Asked] = ContextVar("ASKED")
"""What the story asks that a task plays."""


def topic_of(story: str) -> str:
    return story.rpartition("/")[0]


TOPICS = {
    topic: [story for story in STORIES if topic_of(story) == topic] for topic in dict.fromkeys(map(topic_of, STORIES))
}


def trace_of(run: Any) -> list[Entry]:
    return [entry for _, entry in read_lines((run.scratch / "trace.jsonl").read_text().splitlines())]


def assert_passed(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def of(entries: list[Entry], kind: type[E]) -> list[E]:
    return [entry.event for entry in entries if isinstance(entry.event, kind)]


def test_recorded_stories_have_names_of_their_own() -> None:
    # A trace knows its story by the name alone, without the topic.
    named = Counter((version, story.rpartition("/")[2]) for story, version in RECORDED)

    assert [one for one, times in named.items() if times > 1] == []


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic or "without a topic")
def test_stories_of_a_topic_pass_and_leave_nothing(run: Any, topic: str) -> None:
    played, recordings = TOPICS[topic], recorded.ROOT / "1.34.4" / topic
    compare = f"--compare {recordings}" if recordings.is_dir() else ""

    done = run(f"simkubelet run {' '.join(played)} --junit report.xml {compare}")

    assert_passed(done)
    kept = [story for story in played if is_recorded_as_played(story)]
    assert not kept or f"\ncompared {len(kept)} of " in done.stdout
    told = skipped_in(run.scratch / "report.xml")
    assert len(told) == sum(len(VERSIONS.get(story, [DEFAULT])) for story in played)
    assert [name for name, reason in told.items() if reason is not None] == []
    assert run.leftovers() == []


def is_recorded_as_played(story: str) -> bool:
    """Whether a cluster recorded a story on a version on which it is played here without being asked to."""
    releases = {version(one).kubelet_version for one in VERSIONS.get(story, [DEFAULT])}
    return any(name == story and f"v{release}" in releases for name, release in RECORDED)


def test_stories_pass_on_the_minor_on_which_clusters_recorded_them(run: Any) -> None:
    played = [story for story, _ in RECORDED if not is_recorded_as_played(story)]

    done = run(f"simkubelet run {' '.join(played)} --kubelet-version {DEFAULT} --compare {recorded.ROOT}")

    assert_passed(done)
    assert f"\ncompared {len(played)} of {len(played)} stories" in done.stdout


def test_each_story_about_kubelets_was_recorded_on_a_cluster() -> None:
    portable = {story for story in STORIES if SCENARIOS[story].needed <= CAPABILITIES and SCENARIOS[story].fits}
    about_kubelets = {story for story in portable if is_about_kubelets(story, SCENARIOS[story])}
    kept = {story for story, _ in RECORDED}

    assert about_kubelets - kept == set(), "record them: tools/with_kind ./dev test -s e2e_kind -- --record -k STORY"
    assert kept - portable == set(), "remove their recordings"


def test_story_that_differs_from_its_recording_fails(run: Any) -> None:
    lines = recorded.path_of("gopher-pending", "1.34.4").read_text().splitlines(keepends=True)
    (run.scratch / "less.jsonl").write_text("".join(line for line in lines if "container-started" not in line))

    done = run("simkubelet run gopher-pending --compare less.jsonl")

    assert (done.returncode, done.stderr) == (1, "")
    assert "compared with the recording, the traces differ first in 'pod first', at step " in done.stdout
    assert "-container-started" in done.stdout


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose what is played on whole minors: a few stories on the oldest, or all on all where that is asked for."""
    if metafunc.function is test_stories_pass_on_a_minor:
        if metafunc.config.getoption("--every-minor"):
            chosen = [(minor, part) for minor in SUPPORTED if minor != DEFAULT for part in (OF_KUBELETS, OF_PLUGINS)]
        else:
            chosen = [(SUPPORTED[0], few_of([story for story in OF_PLUGINS if is_of_a_bundled_plugin(story)]))]
        parameters = [
            pytest.param(minor, part, id=f"{minor} {'kubelets' if part is OF_KUBELETS else 'plugins'}")
            for minor, part in chosen
        ]
        metafunc.parametrize(("minor", "played"), parameters)


class StoryPlays:
    """Plays stories in this process, several at a time, and keeps which rows of the version table each asks.

    Attributes:
        asked: Story and minor -> the rows, where the story is about this minor.
        failures: What went wrong.
    """

    def __init__(self, folder: Path) -> None:
        self.asked: dict[tuple[str, str], version_table.Asked] = {}
        self.failures: list[Verdict] = []
        self._folder = folder
        self._places = asyncio.Semaphore(at_a_time())

    async def add(self, chosen: Iterable[tuple[str, str]]) -> None:
        await asyncio.gather(*(self._play(story, minor) for story, minor in chosen))

    async def _play(self, story: str, minor: str) -> None:
        # `gather` makes a task of each play, with a context of its own.
        asked: version_table.Asked = {}
        ASKED.set(asked)
        (job,) = prepare([stories.builtin()[story]], Options(kubernetes=minor, directory=self._folder))
        async with self._places:
            verdict = (await play_job(job, lambda title: None)).verdict
        if verdict.outcome is Outcome.VALID:
            self.asked[story, minor] = asked
        elif verdict.outcome is not Outcome.SKIPPED or not verdict.reason.startswith(IS_ABOUT_OTHERS):
            self.failures.append(verdict)

    def rows_of(self, names: Collection[str]) -> set[Difference[Any]]:
        """Which rows stories asked on any minor."""
        return {row for (story, _), asked in self.asked.items() if story in names for row in asked}


def values_at(minor: str, rows: Iterable[Difference[Any]]) -> tuple[object, ...]:
    return tuple(row.at(version(minor)) for row in rows)


def few_of(names: Sequence[str]) -> list[str]:
    """Choose so many stories that each key of the story language that any of them uses is used."""
    return sorted(covering({name: SCENARIOS[name] for name in names}, dict.fromkeys(names, 1.0)))


def is_of_a_bundled_plugin(story: str) -> bool:
    return story not in VERSIONS and topic_of(story) in PLUGINS


def test_stories_pass_on_a_minor(run: Any, minor: str, played: list[str]) -> None:
    done = run(f"simkubelet run {' '.join(played)} --kubelet-version {minor} --junit report.xml")

    assert_passed(done)
    told = skipped_in(run.scratch / "report.xml")
    assert len(told) == len(played)
    assert [why for why in told.values() if why is not None and not why.startswith(IS_ABOUT_OTHERS)] == []
    assert run.leftovers() == []


async def test_stories_pass_on_minors_that_differ_for_them(run: Any) -> None:
    """The first stories are played on each minor, so the rows that they ask need no other one.

    Of the others about kubelets, so many that each key of the story language is used are played on the oldest and on
    the newest minor, and wherever another row that they ask has a value of its own. A story that names its versions has
    been played on them.
    """
    others = few_of([story for story in OF_KUBELETS if story not in VERSIONS and story not in FIRST_STORIES])
    ends = (SUPPORTED[0], SUPPORTED[-1])
    plays = StoryPlays(run.scratch)

    with version_table.recorded(ASKED):
        await plays.add((story, minor) for story in FIRST_STORIES for minor in SUPPORTED if minor != DEFAULT)
        of_each_minor = plays.rows_of(FIRST_STORIES)
        await plays.add((story, minor) for story in others for minor in ends)
        further: list[tuple[str, str]] = []
        for story in others:
            rows = sorted(plays.rows_of([story]) - of_each_minor, key=lambda row: row.text)
            known = {values_at(minor, rows) for minor in (DEFAULT, *ends)}
            minors = {values_at(minor, rows): minor for minor in SUPPORTED}
            further += [(story, minor) for values, minor in minors.items() if values not in known]
        await plays.add(further)

    assert plays.failures == []
    assert run.leftovers() == []
    on_minors = {DEFAULT, *(minor for story, minor in plays.asked if story in others)}
    for row in plays.rows_of(others) - of_each_minor:
        values = {row.at(version(minor)) for minor in SUPPORTED}
        assert {row.at(version(minor)) for minor in on_minors} == values, row.text


@pytest.mark.nvidia_go
@pytest.mark.parametrize("story", GPU_STORIES)
def test_story_passes_with_nvidias_own_plugin(run: Any, nvidia_plugin: str, story: str) -> None:
    done = run(f"simkubelet run {story} --plugin 'nvidia={nvidia_plugin}' --trace trace.jsonl")

    assert_passed(done)
    assert run.leftovers() == []
    assert {event.endpoint for event in of(trace_of(run), PluginRegistered)} == {"nvidia-gpu.sock"}


@pytest.mark.nvidia_go
def test_both_nvidia_plugins_register_and_list_alike(run: Any, nvidia_plugin: str) -> None:
    told = []
    for swap in ("", f"--plugin 'nvidia={nvidia_plugin}'"):
        assert run(f"simkubelet run kubelet-restart {swap} --trace trace.jsonl").returncode == 0
        events = trace_of(run)
        counts = [(len(event.healthy), len(event.unhealthy)) for event in of(events, DevicesListed)]
        allocated = [len(event.devices) for event in of(events, DevicesAllocated)]
        told.append((of(events, PluginRegistered), counts, allocated))

    assert told[0] == told[1]


def test_xid_79_is_listed_and_xid_13_is_not(run: Any) -> None:
    assert run("simkubelet run device-unhealthy --trace trace.jsonl").returncode == 0

    events = trace_of(run)
    faults = {event.xid: event.gpu for event in of(events, FaultInjected)}
    assert faults.keys() == {13, 79}
    assert [event.unhealthy for event in of(events, DevicesListed)] == [(), (faults[79],)]


def test_trace_has_what_a_plugin_answered(run: Any) -> None:
    assert_passed(run("simkubelet run answer-as-described --trace trace.jsonl"))

    answered = [event.response for event in of(trace_of(run), DevicesAllocated)]
    seats = {response["envs"]["SEATS"] for response in answered}
    assert seats == {"/srv/seats/aisle", "/srv/seats/window"}
    assert {response["envs"]["LANGUAGE"] for response in answered} == {"en"}
    menu = {"container_path": "/menu", "host_path": "/srv/menu", "read_only": True}
    assert all(menu in response["mounts"] for response in answered)


@pytest.mark.parametrize("in_shell", [False, True])
def test_replacing_program_gets_the_storys_args(run: Any, in_shell: bool) -> None:
    program = f"{sys.executable} -m plugin generic"
    config = " --config /etc/seats/seats.yaml" if in_shell else ""
    command = f'sh -c "exec {program}{config}"' if in_shell else program

    done = run(f"simkubelet run generic/replicas-share-a-device --plugin 'seats={command}'")

    assert_passed(done)
    assert run.leftovers() == []


def test_supervisor_starts_gopher_again_after_a_kubelet_restart(run: Any) -> None:
    assert run("simkubelet run gopher-pending --trace trace.jsonl").returncode == 0

    events = trace_of(run)
    (restart,) = [event.seq for event in events if event.kind == "kubelet-stopped"][:1]
    after = [event for event in events[restart:] if event.kind.startswith("plugin-")]
    lives = [(event.kind, getattr(event.event, "status", None)) for event in after]
    assert lives[:3] == [("plugin-exited", 0), ("plugin-started", None), ("plugin-registered", None)]


def test_chosen_stories_with_every_kind_of_output(run: Any) -> None:
    played = [job.name for job in prepare(stories.chosen(), Options())]

    done = run("simkubelet run --junit report.xml --trace trace.jsonl")

    assert_passed(done)
    assert done.stdout.splitlines()[-1].endswith("--all plays all of them")
    assert list(skipped_in(run.scratch / "report.xml")) == played
    lines = [json.loads(line) for line in (run.scratch / "trace.jsonl").read_text().splitlines()]
    assert list(dict.fromkeys(line["story"] for line in lines)) == played
    assert run.leftovers() == []


def test_kept_folder_has_checkpoint_and_plugin_log(run: Any) -> None:
    done = run("simkubelet run kubelet-restart --keep")

    assert_passed(done)
    (folder,) = run.scratch.glob("sk-*")
    assert f"kept {folder}  kubelet-restart" in done.stdout.splitlines()
    checkpoint = folder / "node-1" / "device-plugins" / "kubelet_internal_checkpoint"
    assert '"ResourceName":"nvidia.com/gpu"' in checkpoint.read_text()
    assert (folder / "node-1" / "logs" / "plugins" / "nvidia.log").stat().st_size > 0


def test_kept_folder_is_as_the_architecture_page_says(run: Any) -> None:
    assert_passed(run("simkubelet run device-unhealthy plugin-hangs --keep"))

    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\| `([A-Za-z_/.*-]+)` \|", page.partition("## A node's directory")[2], re.MULTILINE)
    for node in run.scratch.glob("sk-*/node-1"):
        files = [path.relative_to(node) for path in node.rglob("*") if not path.is_dir() or path.is_symlink()]
        strangers = [file for file in files if not any(is_below(file, pattern) for pattern in listed)]
        assert [str(file) for file in strangers] == []


def is_below(file: Path, pattern: str) -> bool:
    """Whether a row of the page's table is about a file: by its path, or by a folder with a slash at its end."""
    return str(file).startswith(pattern) if pattern.endswith("/") else file.match(pattern)


def test_kubelet_logs_only_into_its_nodes_log(run: Any) -> None:
    done = run("simkubelet run k18-old-checkpoint-is-not-read k31-many-numa-nodes-stall-admission --keep")

    assert_passed(done)
    logs = {file.parts[-4]: file.read_text() for file in run.scratch.glob("sk-*/node-1/logs/kubelet.log")}
    said = [line for log in logs.values() for line in log.splitlines()]
    assert len(logs) == 4
    assert [line for line in said if "failing to read checkpoint file" in line and "DevicesPerNUMA" in line]
    assert [line for line in said if "sets of NUMA nodes" in line]
    assert all(re.match(r" *\d+\.\d{3} s  (warning|error) ", line) for line in said)
