"""Commands that play nothing, wrong ones and those about stories: by the command line in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simkubelet._internal import bundle

STEPS = "steps:\n- expect: {node: node-1, capacity: {nvidia.com/gpu: 8}, within: 1s}\n"
WITH_PLUGIN = f"plugins: [{{name: nvidia, builtin: nvidia}}]\n{STEPS}"


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


@pytest.mark.parametrize(("options", "status"), [([], 0), (["--no-skips"], 1)])
def test_no_skips_fails_a_run_and_lists_what_it_skipped(
    options: list[str], status: int, run_cli: Any, write_story: Any
) -> None:
    path = write_story("kubernetes: '>=1.35'\nnodes: [{name: node-1}]\nsteps: [advance: 1s]\n")

    ended, out, _ = run_cli("run", path, "--kubelet-version", "1.34", "-q", *options)

    assert ended == status
    assert ("--no-skips forbids the 1 skipped story:\n  " in out) == bool(options)
    assert ("it is about Kubernetes >=1.35, not 1.34" in out) == bool(options)


def test_stories_are_listed_for_programs(run_cli: Any) -> None:
    status, out, _ = run_cli("list", "--tag", "mig", "-o", "json")

    listed = {one["name"]: one for one in json.loads(out)}
    assert status == 0
    assert all("mig" in one["tags"] and Path(one["file"]).is_file() and one["summary"] for one in listed.values())
    assert [line.split()[0] for line in run_cli("list", "--tag", "mig")[1].splitlines()] == list(listed)


def test_bugs_are_listed_for_programs(run_cli: Any) -> None:
    status, out, _ = run_cli("bugs", "--search", "124716", "-o", "json")

    (bug,) = json.loads(out)
    assert status == 0
    assert bug.keys() == {"id", "links", "component", "affected", "fixed", "story", "title", "description"}
    assert json.loads(run_cli("bugs", "--search", "no such text", "-o", "json")[1]) == []
