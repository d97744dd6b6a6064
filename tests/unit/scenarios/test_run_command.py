"""Stories that `run` plays: with a fake world in the backend's place, by the command line in this process."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from simkubelet._internal import bundle
from simkubelet.model.errors import HostError, InputError

STEPS = "steps:\n- expect: {node: node-1, capacity: {nvidia.com/gpu: 8}, within: 1s}\n"
WITH_PLUGIN = f"plugins: [{{name: nvidia, builtin: nvidia}}]\n{STEPS}"


@pytest.mark.usefixtures("played")
def test_run_prints_a_line_for_each_story_and_exits_with_0(run_cli: Any, write_story: Any) -> None:
    status, out, err = run_cli("run", write_story(STEPS, "one"), write_story(STEPS, "two"))

    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert sorted(line.split()[:3] for line in lines[:2]) == [["1/2", "PASSED", "one"], ["2/2", "PASSED", "two"]]
    assert lines[0].endswith(" s  A story")


@pytest.mark.usefixtures("played")
def test_failed_story_exits_with_1_and_shows_where(run_cli: Any, write_story: Any) -> None:
    path = write_story(STEPS.replace("8", "7"))

    status, out, _ = run_cli("run", path)

    assert status == 1
    assert f"{path}:4: FAILED on Kubernetes 1.34 in step 1 of 1, 'expect node node-1'" in out
    assert "    expected  7\n    actual    8\n" in out


@pytest.mark.usefixtures("played")
def test_failure_shows_the_command_that_repeats_it(run_cli: Any, write_story: Any) -> None:
    story = write_story(f'versions: ["1.26", "1.35"]\nparameters: {{count: 7}}\n{WITH_PLUGIN.replace("8", "7")}')

    _, out, _ = run_cli("run", story, "--plugin", f"nvidia={sys.executable} -c 'a b'", "--set", "count=4")

    command = f"simkubelet run {story} --kubelet-version 1.35 --plugin "
    (line,) = [line for line in out.splitlines() if line.startswith(f"  repeat it: {command}")]
    assert shlex.split(line)[-3:] == [f"nvidia={sys.executable} -c 'a b'", "--set", "count=4"]


@pytest.mark.usefixtures("played")
def test_failure_of_a_repeated_story_names_its_round(run_cli: Any, write_story: Any, tmp_path: Path) -> None:
    junit = tmp_path / "results.xml"

    _, out, _ = run_cli("run", write_story(STEPS.replace("8", "7")), "--repeat", "2", "--junit", junit)

    assert [f"FAILED on Kubernetes 1.34 (round {number}/2) in step 1 of 1" in out for number in (1, 2)] == [True, True]
    rounds = re.findall(r'name="(story [^"]*)"|name="round" value="([^"]*)"', junit.read_text())
    assert [name or number for name, number in rounds] == ["story 1/2", "1/2", "story 2/2", "2/2"]


def test_failed_machine_exits_with_3(
    jobs: ModuleType, monkeypatch: pytest.MonkeyPatch, run_cli: Any, write_story: Any, world: Any, frames: Any
) -> None:
    broken = world([frames.frame()], errors={"enter": HostError("no space left")})
    monkeypatch.setattr(jobs, "_backend", lambda document, options: broken)

    status, out, _ = run_cli("run", write_story(STEPS))

    assert status == 3
    assert "UNKNOWN" in out
    assert "no space left" in out


def test_impossible_step_is_its_storys_error_and_2(
    jobs: ModuleType, monkeypatch: pytest.MonkeyPatch, run_cli: Any, write_story: Any, world: Any, frames: Any
) -> None:
    errors = {"restartKubelet": InputError("it runs already")}
    monkeypatch.setattr(jobs, "_backend", lambda document, options: world([frames.frame()], errors=errors))
    wrong = write_story("steps:\n- restartKubelet: {}\n", "wrong")

    status, out, err = run_cli("run", wrong, write_story(STEPS, "fine"))

    assert (status, err) == (2, "")
    assert f"{wrong}:4: ERROR on Kubernetes 1.34 in step 1 of 1, 'restartKubelet'\n  it runs already\n" in out
    assert out.splitlines()[-1].startswith("1 passed, 1 error in ")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_interrupted_run_leaves_its_world_and_what_was_done(
    jobs: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    run_cli: Any,
    write_story: Any,
    world: Any,
    frames: Any,
    number: signal.Signals,
    status: int,
    tmp_path: Path,
) -> None:
    a_world = world([frames.frame()])

    class Interrupting:
        async def wait(self) -> bool:
            os.kill(os.getpid(), number)
            await a_world.trace.longer_than(1000)
            return True

    monkeypatch.setattr(a_world, "patience", lambda within_s: Interrupting())
    monkeypatch.setattr(jobs, "_backend", lambda document, options: a_world)

    stories = [write_story(STEPS.replace("8", "7"), name) for name in ("begun", "later")]
    junit, trace = tmp_path / "junit.xml", tmp_path / "trace.jsonl"
    result, out, err = run_cli("run", *stories, "-n", "1", "--junit", junit, "--trace", trace)

    assert (result, err) == (status, "interrupted; everything was ended\n")
    assert out.splitlines()[0].startswith("1/2 INTERRUPTED begun ")
    assert out.splitlines()[-2] == "not played: later"
    assert out.splitlines()[-1].startswith("1 interrupted, 1 not played in ")
    assert 'type="INTERRUPTED"' in junit.read_text()
    assert 'type="NOT PLAYED"' in junit.read_text()
    assert [json.loads(line)["kind"] for line in trace.read_text().splitlines()] == ["step-started"]
    assert a_world.is_left
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_options_reach_the_backend(run_cli: Any, write_story: Any, played: Any) -> None:
    program = f"nvidia={sys.executable} -c 'a b'"
    # Not below the test's own folder, whose path is too long for sockets.
    with tempfile.TemporaryDirectory(prefix="sk") as folder:
        arguments = ("--plugin", program, "--kubelet-version", "1.28", "--dir", folder, "--keep")

        status, _, _ = run_cli("run", write_story(WITH_PLUGIN), *arguments)

    ((document, options),) = played
    assert status == 0
    assert options.plugin_commands == {"nvidia": (sys.executable, "-c", "a b")}
    assert (options.directory, options.keep) == (Path(folder), True)
    assert document.scenario.nodes[0].kubernetes == "1.28"


@pytest.mark.usefixtures("played")
def test_run_writes_junit_and_trace(run_cli: Any, write_story: Any, tmp_path: Path) -> None:
    junit, trace = tmp_path / "junit.xml", tmp_path / "trace.jsonl"

    run_cli("run", write_story(STEPS, "a"), write_story(STEPS, "b"), "--junit", junit, "--trace", trace)

    assert junit.read_text().count("<testcase ") == 2
    entries = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [(entry["story"], entry["kind"]) for entry in entries] == [
        (story, kind) for story in "ab" for kind in ("step-started", "expectation-met")
    ]


@pytest.mark.usefixtures("played")
def test_run_writes_a_report_of_each_story(run_cli: Any, write_story: Any, tmp_path: Path) -> None:
    run_cli("run", write_story(STEPS, "a"), write_story(STEPS, "b"), "--report", tmp_path / "made" / "report")

    page = (tmp_path / "made" / "report" / "index.html").read_text()
    assert page.count('<tbody class="story" data-verdict="PASSED"') == 2
    assert page.count('"expectation-met"') == 2


@pytest.mark.usefixtures("played")
def test_run_without_report_loads_no_templates(run_cli: Any, write_story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)

    assert run_cli("run", write_story(STEPS))[0] == 0


def test_run_without_names_plays_the_chosen_stories_and_says_how_to_play_all(
    run_cli: Any, write_story: Any, played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: write_story(STEPS, name) for name in ("one", "two", "three")}
    stories = bundle.load("scenarios", "story.stories")
    monkeypatch.setattr(stories, "builtin", lambda: known)
    monkeypatch.setattr(stories, "CHOSEN", ("two",))

    status, out, _ = run_cli("run")
    assert (status, [document.scenario.name for document, _ in played]) == (0, ["two"])
    assert out.splitlines()[-1] == "these were 1 of 3 built-in stories; --all plays all of them"

    played.clear()
    status, out, _ = run_cli("run", "--all")
    assert (status, [document.scenario.name for document, _ in played]) == (0, ["one", "two", "three"])
    assert "--all" not in out


@pytest.mark.usefixtures("played")
def test_missing_folders_of_files_are_made(run_cli: Any, write_story: Any, tmp_path: Path) -> None:
    files = [tmp_path / option / "made" / "file" for option in ("junit", "trace", "report")]

    status, _, _ = run_cli("run", write_story(STEPS), *(f"--{file.parts[-3]}={file}" for file in files))

    assert (status, [file.exists() for file in files]) == (0, [True] * 3)


def test_story_is_played_on_each_of_its_versions_or_on_the_one_that_is_asked_for(
    run_cli: Any, write_story: Any, played: Any
) -> None:
    story = write_story(f'versions: ["1.26.4", "1.35"]\n{STEPS}')

    _, out, _ = run_cli("run", story)
    names = sorted(line.partition("PASSED")[2].strip().split("  ")[0] for line in out.splitlines()[:2])
    assert names == ["story on 1.26.4", "story on 1.35"]
    run_cli("run", story, "--kubelet-version", "1.28.3")

    assert [document.scenario.nodes[0].kubernetes for document, _ in played] == ["1.26.4", "1.35", "1.28.3"]


def test_each_story_is_played_as_often_as_asked(run_cli: Any, write_story: Any, played: Any) -> None:
    stories = [write_story(STEPS, name) for name in ("a", "b")]

    _, out, _ = run_cli("run", *stories, "--repeat", "2", "-n", "1")

    names = [line.partition("PASSED")[2].strip().split("  ")[0] for line in out.splitlines()[:4]]
    assert names == ["a 1/2", "b 1/2", "a 2/2", "b 2/2"]
    assert len(played) == 4


def test_expression_selects_from_all_builtin_stories(
    run_cli: Any, write_story: Any, played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: write_story(STEPS, name) for name in ("one", "two", "three")}
    monkeypatch.setattr(bundle.load("scenarios", "story.stories"), "builtin", lambda: known)

    status, out, _ = run_cli("run", "-k", "t and not two")

    assert (status, [document.scenario.name for document, _ in played]) == (0, ["three"])
    assert out.splitlines()[-1].startswith("1 passed in ")


def test_tags_select_from_all_builtin_stories(
    run_cli: Any, write_story: Any, played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {"one": "mig, health", "two": "health", "three": "reboot", "four": ""}
    known = {name: write_story(f"tags: [{given}]\n{STEPS}", name) for name, given in tags.items()}
    monkeypatch.setattr(bundle.load("scenarios", "story.stories"), "builtin", lambda: known)

    status, out, _ = run_cli("run", "--tag", "mig", "--tag", "reboot", "-n", "1")
    listed = run_cli("list", "--tag", "health")[1].splitlines()

    assert (status, [document.scenario.name for document, _ in played]) == (0, ["one", "three"])
    assert out.splitlines()[-1].startswith("2 passed in ")
    assert [line.split()[0] for line in listed] == ["one", "two"]
    assert listed[0].endswith("A story  [mig, health]")


def test_story_is_read_once_for_all_its_versions(
    run_cli: Any, write_story: Any, played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = bundle.load("scenarios", "story.document")
    read: list[bytes] = []
    read_yaml = document.read_yaml
    monkeypatch.setattr(document, "read_yaml", lambda text: read.append(text) or read_yaml(text))
    story = write_story(f'versions: ["1.26", "1.28", "1.34"]\n{STEPS}')

    assert run_cli("run", story)[0] == 0

    assert (len(played), len(read)) == (3, 1)
