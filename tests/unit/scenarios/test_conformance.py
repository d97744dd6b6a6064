"""The checks of ``simkubelet conform`` as documents, how a plugin takes its place in them, and what is reported."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from scenarios.conform.checks import GROUPS, all_checks, selected
from scenarios.conform.conform import Play, Result, Status, exit_status, shared
from scenarios.conform.profile import Profile, read_profile
from scenarios.conform.report import Report, junit_xml, result_lines
from scenarios.conform.tested_plugin import NAME, Subject
from scenarios.evaluation.verdict import Outcome, Verdict
from scenarios.play.job import Job, Options
from scenarios.story.check_spec import Needs, StandsFor
from scenarios.story.document import DocumentError
from scenarios.story.verbs.plugin_action import StubAction
from scenarios.story.verbs.pod_action import Apply
from simkubelet.model.errors import HostError, InputError
from tools.generate import conformance_page

CHECKS = all_checks()
BY_ID = {check.id: check for check in CHECKS}
PROFILE = {
    "env": {"A": "b"},
    "gpus": {"profile": "t4", "count": 2},
    "break": {"fail": {"gpu": 0, "lost": True}},
    "wait": "3s",
}


def subject(profile: Mapping[str, Any] | None = None, count: int = 2, *options: str) -> Subject:
    return Subject(
        ("/bin/plugin", "-v"),
        Profile.model_validate(profile or {}),
        "nvidia.com/gpu",
        count,
        ("nvidia.com/gpu",),
        frozenset(options),
    )


def result(check: str, status: Status, reason: str = "") -> Result:
    outcome = {Status.PASSED: Outcome.VALID, Status.SKIPPED: Outcome.SKIPPED, Status.UNKNOWN: Outcome.UNKNOWN}
    return Result(BY_ID[check], status, Verdict(check, outcome.get(status, Outcome.INVALID), 1.0, reason))


def test_every_group_has_checks_and_every_check_a_group() -> None:
    assert list(dict.fromkeys(check.group for check in CHECKS)) == list(GROUPS)
    assert len(BY_ID) == len(CHECKS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_check_can_be_played_with_any_plugin(check: Any) -> None:
    scenario = check.document.scenario
    plugins = {plugin.name for plugin in scenario.plugins}
    commands = [step for step in scenario.steps if isinstance(step.action, StubAction)]

    assert scenario.name == check.id.partition("/")[2]
    assert NAME in plugins
    assert all(step.stands_for for step in commands), "a plugin under test takes no commands"
    assert {"resource", "count"} <= scenario.parameters.keys()
    breaks = {step.stands_for for step in scenario.steps if step.stands_for}
    assert (StandsFor.BREAK in breaks, StandsFor.HEAL in breaks) == (
        check.spec.needs.breakable,
        check.spec.needs.healable,
    )


def test_plugin_and_profile_take_their_place_in_a_check() -> None:
    scenario = subject(PROFILE).in_check(BY_ID["health/reported"]).scenario

    (plugin,), (node,) = scenario.plugins, scenario.nodes
    assert (plugin.builtin, plugin.command, plugin.tap, plugin.env) == (None, ("/bin/plugin", "-v"), True, {"A": "b"})
    assert node.gpus is not None
    assert [step.verb for step in scenario.steps if step.stands_for is None].count("fail") == 1
    assert scenario.parameters == {"resource": "nvidia.com/gpu", "count": 2, "remaining": 1, "wait": "3s"}


def test_each_pod_has_what_the_plugins_scheduler_writes() -> None:
    document = subject({"annotations": {"example.com/gpu": "0"}}).in_check(BY_ID["kubelet-restart/during-admission"])

    pods = [step.action for step in document.scenario.steps if isinstance(step.action, Apply)]
    assert len(pods) == 2
    assert [pod.manifest["metadata"]["annotations"] for pod in pods] == [{"example.com/gpu": "0"}] * 2


def test_checks_that_differ_in_their_last_look_share_a_play() -> None:
    plugin = subject()
    names = ("registration/version", "lists/health", "stream/ends", "shutdown/exit-status", "shutdown/ends-in-time")

    plays = shared(Play(Job(plugin.in_check(BY_ID[name]), Options()), (BY_ID[name],)) for name in names)

    assert [[check.id for check in play.checks] for play in plays] == [[*names[:2]], ["stream/ends"], [*names[3:]]]
    first, _, last = (play.job.story.scenario.steps for play in plays)
    assert [step.verb for step in last] == ["expect", "stopPlugin", "expect", "expect"]
    assert first[1:] == tuple(plugin.in_check(BY_ID[name]).scenario.steps[-1] for name in names[:2])


def test_many_devices_are_those_of_the_profile() -> None:
    many = {"count": 9, "env": {"N": "9"}, "files": ["/etc/many"]}
    scenario = subject({**PROFILE, "many": many}).in_check(BY_ID["limits/many-devices"]).scenario

    (plugin,), (node,) = scenario.plugins, scenario.nodes
    assert plugin.env == {"A": "b", "N": "9"}
    assert node.files == ("/etc/many",)
    assert scenario.parameters["count"] == 9


def test_further_instance_is_the_plugin_too() -> None:
    scenario = subject().in_check(BY_ID["instances/rolling-update"]).scenario

    assert [(plugin.name, plugin.command is None) for plugin in scenario.plugins] == [
        ("plugin", False),
        ("plugin-2", False),
    ]
    assert scenario.plugins[1].start == "manual"


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"devices": 3}, "needs 3 devices; the plugin lists 2", id="devices"),
        pytest.param({"preStart": True}, "the plugin does not ask for PreStartContainer", id="PreStart"),
        pytest.param({"preferredAllocation": True}, "", id="option that is on"),
        pytest.param({"breakable": True}, "no profile says how a device breaks (break:)", id="break"),
        pytest.param({"many": True}, "no profile says how the plugin lists many devices (many:)", id="many"),
        pytest.param({"healable": True}, "no profile says how a device is healed (heal:)", id="heal"),
    ],
)
def test_check_that_does_not_apply_has_a_reason(needs: Mapping[str, Any], reason: str) -> None:
    assert subject(None, 2, "preferredAllocation").reason_to_skip(Needs.model_validate(needs)) == reason


@pytest.mark.parametrize(
    ("only", "skip", "left"),
    [
        pytest.param(["shutdown", "weather*"], ["shutdown/s*"], None, id="pattern that names nothing"),
        pytest.param(
            ["resources/"], ["resources/m*", "resources/open-files"], ["idle-cpu", "sockets", "threads"], id="patterns"
        ),
        pytest.param(["resources/memory"], ["resources"], None, id="nothing is left"),
    ],
)
def test_patterns_choose_checks(only: list[str], skip: list[str], left: list[str] | None) -> None:
    if left is None:
        with pytest.raises(InputError):
            selected(CHECKS, only, skip)
    else:
        assert [check.id.partition("/")[2] for check in selected(CHECKS, only, skip)] == left


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("cuont: 2", "1:1: cuont: unknown key; did you mean 'count'?", id="key"),
        pytest.param("count: 2\nwait: soon", "2:7: wait: expected a duration like 200ms", id="duration"),
        pytest.param("break: {expect: {node: n, capacity: {r: 1}}}", "1:1: 'break' is a step that does", id="step"),
        pytest.param("heal: {heal: {gpu: 0}}", "1:1: 'heal' has nothing to heal without 'break'", id="heal alone"),
        pytest.param("gpus: {profile: t4}", "1:7: gpus: missing key 'count'", id="GPUs"),
    ],
)
def test_problem_of_a_profile_has_its_place(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text(text)

    with pytest.raises(DocumentError) as caught:
        read_profile(path)

    assert caught.value.lines[0].startswith(f"{path}:{problem}")


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([Status.PASSED, Status.WARNING, Status.SKIPPED], 0),
        ([Status.PASSED, Status.UNKNOWN], 3),
        ([Status.UNKNOWN, Status.FAILED], 1),
    ],
)
def test_exit_status_is_that_of_the_gravest_result(statuses: list[Status], expected: int) -> None:
    assert exit_status([result("stream/ends", status) for status in statuses]) == expected


def test_report_streams_lines_and_groups_results() -> None:
    out = io.StringIO()
    report = Report(Console(file=out), [BY_ID["lists/health"], BY_ID["stream/ends"]])
    report.show_subject(subject())

    report.add(result("stream/ends", Status.FAILED, "expected 2; actual 1"))
    report.add(result("lists/health", Status.PASSED))
    report.finish()

    lines = out.getvalue().splitlines()
    assert lines[:3] == [
        "nvidia.com/gpu: 2 devices; options: none",
        "1/2 FAILED  stream/ends     1.00 s",
        "2/2 PASSED  lists/health    1.00 s",
    ]
    assert lines.index("Device lists") < lines.index("End of the ListAndWatch stream")
    assert any(line.startswith("  how to fix it: ") for line in lines)
    assert lines[-1].startswith("1 passed, 1 failed in ")


def test_junit_has_a_case_for_each_result() -> None:
    results = [
        result("lists/health", Status.PASSED),
        result("stream/ends", Status.FAILED, "no\x1b[0m"),
        result("lists/id-length", Status.WARNING, "long"),
        result("pre-start/again", Status.SKIPPED, "does not apply"),
    ]

    suite = ElementTree.fromstring(junit_xml(results))  # noqa: S314  # made here

    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "4",
        "1",
        "0",
        "1",
    )
    assert [(case.get("classname"), [child.tag for child in case]) for case in suite] == [
        ("conform.lists", []),
        ("conform.stream", ["failure"]),
        ("conform.lists", ["system-out"]),
        ("conform.pre-start", ["skipped"]),
    ]


def test_report_is_a_page_with_advice(tmp_path: Path) -> None:
    chosen = [BY_ID["lists/health"], BY_ID["lists/id-length"]]
    report = Report(Console(file=io.StringIO()), chosen, page=tmp_path / "results")
    assert "lists/health" not in (tmp_path / "results" / "index.html").read_text()

    report.add(result("lists/health", Status.PASSED))
    report.add(result("lists/id-length", Status.WARNING, "long"))
    report.finish()

    page = (tmp_path / "results" / "index.html").read_text()
    assert all(text in page for text in ("lists/health", "WARNING", "how to fix it: ", "simkubelet conform"))


@pytest.mark.parametrize("option", ["junit", "page"])
def test_missing_folder_of_a_file_is_made(tmp_path: Path, option: str) -> None:
    place = tmp_path / "made" / "here"

    Report(Console(file=io.StringIO()), [], **{option: place})

    assert place.exists()


@pytest.mark.parametrize("option", ["junit", "page"])
def test_file_that_cannot_be_written_is_found_before_the_first_check(tmp_path: Path, option: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        Report(Console(file=io.StringIO()), [], **{option: tmp_path / "file" / "x"})


def test_results_are_printed_though_the_disk_is_full(tmp_path: Path) -> None:
    out, file = io.StringIO(), tmp_path / "junit.xml"
    report = Report(Console(file=out), [], junit=file)
    file.unlink()
    file.symlink_to("/dev/full")

    with pytest.raises(HostError, match=f"^--junit: '{file}' cannot be written: No space left on device$"):
        report.finish()

    assert out.getvalue().rstrip().endswith(" s")


def test_page_is_that_of_the_checks() -> None:
    assert conformance_page.PAGE.read_text() == conformance_page.page(), (
        "run: python -m tools.generate.conformance_page"
    )


def test_known_verdicts_name_checks() -> None:
    assert {check for _, check, _, _ in conformance_page.KNOWN} <= BY_ID.keys()


def test_failure_names_its_place_on_the_page() -> None:
    lines = result_lines(result("stream/ends", Status.FAILED, "no"))

    assert lines[-1].endswith("#streamends")
    assert "\n### stream/ends\n" in conformance_page.PAGE.read_text()
