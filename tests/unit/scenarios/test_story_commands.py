"""The command line in this process, with a fake world in the backend's place."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from simkubelet._internal import bundle
from simkubelet.cli import main
from simkubelet.model.errors import HostError, InputError

STEPS = "steps:\n- expect: {node: node-1, capacity: {nvidia.com/gpu: 8}, within: 1s}\n"
WITH_PLUGIN = f"plugins: [{{name: nvidia, builtin: nvidia}}]\n{STEPS}"


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


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--all"], "--all plays the built-in stories; leave it out", id="all and a name"),
        pytest.param(["nonsense"], "no story 'nonsense'; 'simkubelet list' shows", id="story"),
        pytest.param(
            ["--kubelet-version", "1.99"], "--kubelet-version: no Kubernetes '1.99' here; supported are", id="version"
        ),
        pytest.param(["--plugin", "nvidia"], "Invalid value for '--plugin': 'nvidia' is not of the form", id="no ="),
        pytest.param(["--plugin", "nvidia='x"], "Invalid value for '--plugin': ", id="open quote"),
        pytest.param(["--plugin", "nvida=true"], "--plugin: no plugin 'nvida'; did you mean 'nvidia'?", id="plugin"),
        pytest.param(["--plugin", "nvidia=/no/x"], "--plugin: plugin 'nvidia': no program '/no/x'", id="program"),
        pytest.param(["-n", "0"], "Invalid value for '-n': 0 is not in the range", id="processes"),
        pytest.param(["--junit", "/dev/null/x"], "--junit: '/dev/null/x' cannot be written: Not a dir", id="junit"),
        pytest.param(["--dir", "/dev/null/x"], "/dev/null/x: no folder can be made here: Not a dir", id="folder"),
        pytest.param(["--timeout", "2"], "Invalid value for '--timeout': expected a duration like", id="timeout"),
        pytest.param(["--pause-on-failure"], "--pause-on-failure: needs a terminal, where Enter", id="no terminal"),
        pytest.param(["--watch", "-n", "2"], "--watch plays one story at a time; leave -n out", id="watch several"),
        pytest.param(["--repeat", "0"], "Invalid value for '--repeat': 0 is not in the range", id="repeat"),
        pytest.param(["-k", "frob"], "-k: no story matches 'frob'", id="expression"),
        pytest.param(["--tag", "frob"], "--tag: no story has the tag 'frob'; none of them has a tag", id="tag"),
        pytest.param(["--trace", "/dev/null/x"], "--trace: '/dev/null/x' cannot be written: Not a dir", id="trace"),
        pytest.param(
            ["--report", "/dev/null"], "--report: '/dev/null/index.html' cannot be written: Not a", id="report"
        ),
        pytest.param(["--frob"], "No such option '--frob'", id="option"),
    ],
)
def test_wrong_use_is_one_line_and_2(
    arguments: list[str], complaint: str, run_cli: Any, write_story: Any, played: Any
) -> None:
    status, out, err = run_cli("run", write_story(WITH_PLUGIN), *arguments)

    assert (status, out, played) == (2, "", [])
    assert err.startswith(f"error: {complaint}")
    assert err.count("\n") == 1


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


def test_missing_program_of_a_story_is_reported_with_its_place(run_cli: Any, write_story: Any, played: Any) -> None:
    path = write_story(f"plugins:\n- name: mine\n  command: [no-such-plugin, -v]\n{STEPS}")

    result = run_cli("run", path)

    complaint = f"{path}:5: plugin 'mine': no program 'no-such-plugin'; give its path or put its folder on PATH"
    assert result == (2, "", f"error: {complaint}\n")
    assert played == []


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("./gone", "no program './gone'; there is no file {folder}/gone"),
        ("./script", "'./script' is not executable; allow it with: chmod +x {folder}/script"),
        ("bin/", "'bin/' is a folder; name a program in it"),
    ],
)
def test_path_of_a_program_begins_in_the_storys_folder(
    run_cli: Any,
    write_story: Any,
    played: Any,
    word: str,
    why: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write_story(f"plugins:\n- name: mine\n  command: [{word}]\n{STEPS}")
    (path.parent / "script").write_text("#!/bin/sh\n")
    (path.parent / "bin").mkdir()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))

    result = run_cli("run", path)

    complaint = f"{path}:5: plugin 'mine': {why.format(folder=path.parent)}"
    assert (result, played) == ((2, "", f"error: {complaint}\n"), [])


def test_problems_of_all_files_are_reported_before_anything_starts(run_cli: Any, write_story: Any, played: Any) -> None:
    good, bad, worse = write_story(STEPS, "good"), write_story("steps: []", "bad"), write_story("x: 1", "worse")

    status, out, err = run_cli("run", good, bad, worse)

    assert (status, out, played) == (2, "", [])
    assert [line.split(": ")[0] for line in err.splitlines()] == [f"{bad}:3:8", f"{worse}:1:1", f"{worse}:3:1"]


@pytest.mark.usefixtures("jobs")
def test_check_tells_right_files_and_problems(run_cli: Any, write_story: Any) -> None:
    good, bad = write_story(STEPS, "good"), write_story("steps: []", "bad")

    assert run_cli("check", good) == (0, f"ok: {good}\n", "")
    assert run_cli("check", bad, good) == (
        2,
        f"ok: {good}\n",
        f"{bad}:3:8: steps: expected at least 1 item; found []\n",
    )


def test_list_names_each_builtin_story(run_cli: Any) -> None:
    status, out, _ = run_cli("list")

    assert status == 0
    name, summary = out.splitlines()[2].split(maxsplit=1)
    about = "A kubelet restart takes no device from a running pod  [checkpoint, registration, restart]"
    assert (name, summary) == ("kubelet-restart", about)
    topics = [line.split("/")[0] for line in out.splitlines()[3:]]
    assert topics == sorted(topics)


def test_show_prints_the_file_as_it_is(run_cli: Any, write_story: Any) -> None:
    path = write_story(STEPS)

    assert run_cli("show", path) == (0, path.read_text(), "")


def test_show_of_an_unreadable_file_is_one_line(run_cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    assert run_cli("show", path) == (2, "", f"error: {path}: cannot be read: No such file or directory\n")

    path.write_bytes(b"\xff")
    status, _, err = run_cli("show", path)
    assert (status, err.count("\n")) == (2, 1)


def test_schema_is_json(run_cli: Any) -> None:
    status, out, _ = run_cli("schema")

    assert status == 0
    assert json.loads(out)["title"] == "Scenario"


def test_help_names_the_commands_and_where_to_begin(run_cli: Any) -> None:
    status, out, _ = run_cli("--help")

    assert status == 0
    assert "simkubelet run my-story.yaml            play your own\n" in out
    assert "simkubelet run                          play some built-in stories; --all plays all\n" in out
    for command in ("run", "list", "show", "check", "schema", "plugin"):
        assert f"\n  {command} " in out


def test_version_and_unknown_command(run_cli: Any) -> None:
    assert run_cli("--version")[1].startswith("simkubelet")
    assert run_cli("rnu") == (2, "", "error: No such command 'rnu'; see 'simkubelet --help'\n")


def test_no_command_shows_the_help_and_exits_with_2(run_cli: Any) -> None:
    status, _, err = run_cli()

    assert status == 2
    assert "Start here:" in err


def test_arguments_behind_plugin_go_to_the_plugin(run_cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[object] = []

    def plugin_main(args: tuple[str, ...], *, prog_name: str) -> int:
        got.append((args, prog_name))
        return 3

    monkeypatch.setattr(bundle.load("plugin", "cli"), "main", plugin_main)

    status, _, _ = run_cli("plugin", "nvidia", "--help", "--", "-x")

    assert status == 3
    assert got == [(("nvidia", "--help", "--", "-x"), "simkubelet plugin")]
