"""The checks of ``simkubelet conform`` as documents, how a plugin takes its place in them, and what is reported."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from scenarios.conform.checks import GROUPS, all_checks, selected, with_needed
from scenarios.conform.conform import Play, Result, Status, conform, exit_status, shared
from scenarios.conform.profile import Profile, read_profile
from scenarios.conform.report import Report, junit_xml, result_lines
from scenarios.conform.tested_plugin import NAME, Subject, discovered
from scenarios.evaluation.verdict import Failure, Outcome, Verdict
from scenarios.play.job import Job, Options, Played
from scenarios.story.check_spec import Needs, Severity, StandsFor
from scenarios.story.document import DocumentError
from scenarios.story.verbs.plugin_action import StubAction
from scenarios.story.verbs.pod_action import Apply
from scenarios.trace.events import StepStarted
from scenarios.trace.trace import Entry, Trace
from simkubelet.model.errors import HostError, InputError, PluginError
from simkubelet.model.events import DevicesListed, PluginRegistered
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


def result(check: str, status: Status, reason: str = "", cause: str = "") -> Result:
    outcome = {Status.PASSED: Outcome.VALID, Status.SKIPPED: Outcome.SKIPPED, Status.UNKNOWN: Outcome.UNKNOWN}
    return Result(BY_ID[check], status, Verdict(check, outcome.get(status, Outcome.INVALID), 1.0, reason), cause=cause)


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

    plays = played(*names, "shutdown/removes-its-socket")

    ids = [[check.id for check in play.checks] for play in plays]
    assert ids == [[names[-1]], [*names[:2]], ["stream/ends"], ["shutdown/exit-status", "shutdown/removes-its-socket"]]
    _, first, _, last = (play.job.story.scenario.steps for play in plays)
    assert [step.verb for step in last] == ["expect", "stopPlugin", "expect", "expect"]
    assert first[1:] == tuple(plugin.in_check(BY_ID[name]).scenario.steps[-1] for name in names[:2])


def test_checks_that_look_for_some_time_are_played_alone_and_early() -> None:
    plays = played("lists/health", "registration/version", "registration/once", "lists/unchanged", "resources/memory")

    ids = [[check.id for check in play.checks] for play in plays]
    assert ids[:2] == [["lists/unchanged"], ["registration/once"]]
    assert ids[2] == ["lists/health", "registration/version"]


def test_lists_are_watched_for_more_than_a_minute() -> None:
    last = subject().in_check(BY_ID["lists/unchanged"]).scenario.steps[-1].expect
    given = subject({"watch": "4s"}).in_check(BY_ID["lists/unchanged"]).scenario.steps[-1].expect

    assert last is not None
    assert last.holds > 60
    assert given is not None
    assert given.holds == 4


def played(*names: str) -> list[Play]:
    return shared(Play(Job(subject().in_check(BY_ID[name]), Options()), (BY_ID[name],)) for name in names)


@pytest.mark.parametrize(
    ("number", "outcomes"),
    [
        pytest.param(0, ["invalid", "invalid", "invalid"], id="its world"),
        pytest.param(1, ["invalid", "invalid", "invalid"], id="a step that they share"),
        pytest.param(2, ["invalid", None, None], id="the first look"),
        pytest.param(3, ["valid", "invalid", None], id="the second look"),
    ],
)
def test_failure_of_a_shared_play_is_of_the_checks_that_have_its_step(
    number: int, outcomes: Sequence[str | None]
) -> None:
    (play,) = played("registration/version", "lists/health", "lists/numa-nodes")
    failure = Failure("version.yaml:1", "expect", (), (), number=number, total=4)

    assert play.outcomes(Verdict("version", Outcome.INVALID, 1.0, "no", failure)) == outcomes
    assert play.outcomes(Verdict("version", Outcome.UNKNOWN, 1.0, "busy", failure)) == [None] * 3


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_check_needs_checks_that_are_played_before_it(check: Any) -> None:
    needed = with_needed(CHECKS, check.spec.needs.passed)

    assert check.id not in needed
    for one in map(BY_ID.__getitem__, needed):
        assert one.spec.severity is Severity.FAILURE
        # A break can need the whole machine, and such checks come last.
        assert check.spec.needs.breakable or not one.spec.needs.breakable


async def verdicts_of(
    monkeypatch: pytest.MonkeyPatch, failed: Mapping[str, Outcome], *only: str, skip: Sequence[str] = (), count: int = 2
) -> tuple[dict[str, Result], list[str]]:
    """Results by check, and the checks that were played, with a plugin that passes all but some."""
    order, results = list[str](), dict[str, Result]()

    async def play(job: Job, progress: object) -> Played:
        path = job.story.path
        check = f"{path.parent.name}/{path.stem}"
        order.append(check)
        await asyncio.sleep(0)
        return Played(Verdict(path.stem, failed.get(check, Outcome.VALID), 1.0, "no" if check in failed else ""))

    monkeypatch.setattr("scenarios.conform.conform.play_job", play)
    checks = selected(CHECKS, only, skip)
    await conform(subject(None, count), checks, 1, None, lambda result: results.update({result.check.id: result}))
    assert results.keys() == {check.id for check in checks}
    return results, order


@pytest.mark.parametrize(
    ("outcome", "word"), [(Outcome.INVALID, "failed"), (Outcome.UNKNOWN, "is unknown"), (Outcome.ERROR, "is unknown")]
)
async def test_check_is_skipped_when_one_that_it_needs_does_not_pass(
    outcome: Outcome, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = "kubelet-restart/registers-again"

    results, order = await verdicts_of(monkeypatch, {cause: outcome}, "resources/memory", "stream/ends")

    memory = results["resources/memory"]
    reason = f"needs {cause}, which {word}"
    assert (memory.status, memory.verdict.reason, memory.cause) == (Status.SKIPPED, reason, cause)
    assert results["kubelet-restart/two-in-a-row"].cause == cause
    assert sorted(order) == [cause, "stream/ends"]


async def test_check_is_skipped_when_one_that_it_needs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    results, _ = await verdicts_of(monkeypatch, {}, "resources/memory", skip=["kubelet-restart"])

    reason = "needs kubelet-restart/two-in-a-row, which was not checked"
    assert results["resources/memory"].verdict.reason == reason


async def test_check_that_does_not_apply_keeps_no_other_from_being_played(monkeypatch: pytest.MonkeyPatch) -> None:
    results, order = await verdicts_of(monkeypatch, {}, "kubelet-restart/during-admission", count=1)

    assert results["limits/all-devices"].status is Status.SKIPPED
    assert order[-1] == "kubelet-restart/during-admission"


async def test_each_check_of_a_plugin_that_passes_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    results, _ = await verdicts_of(monkeypatch, {})

    statuses = {result.status for result in results.values() if not result.verdict.reason}
    assert statuses == {Status.PASSED}
    assert not any(result.cause for result in results.values())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_no_check_adds_hardware_to_the_plugins_node(check: Any) -> None:
    profile = {"gpus": {"profile": "t4", "count": 1}, "files": ["/etc/mine"]}

    for node in subject().in_check(check).scenario.nodes:
        assert not node.has_devices
        assert not node.files
    for node in subject(profile).in_check(check).scenario.nodes:
        assert (node.gpus is not None, node.amd, node.iluvatar, node.files) == (True, None, None, ("/etc/mine",))


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


class SlowWorld:
    """A world of a busy machine: a wait takes three times as long. `view` is what it says of the plugin."""

    is_starved = False

    def __init__(self, monkeypatch: pytest.MonkeyPatch, view: SimpleNamespace) -> None:
        self.trace = Trace()
        self.now_s = 1000.0
        self.view = view
        monkeypatch.setattr("scenarios.conform.tested_plugin.time.monotonic", lambda: self.now_s)

    async def __aenter__(self) -> SlowWorld:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def observe(self) -> SimpleNamespace:
        return SimpleNamespace(plugins=(self.view,))

    def node(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(plugin_logs=Path("/nowhere"))

    def patience(self, within_s: float) -> SlowWorld:
        self.end_s = self.now_s + 3 * within_s
        return self

    async def wait(self) -> bool:
        self.now_s += 0.5
        return self.now_s < self.end_s


@pytest.mark.parametrize(
    ("registrations", "calls", "message"),
    [
        (0, {}, "the plugin has not registered within 90 s"),
        (0, {"GetDevicePluginOptions": 1}, "the plugin has not answered GetDevicePluginOptions within 90 s"),
        (1, {"GetDevicePluginOptions": 1}, "the plugin registers, but lists no device within 90 s"),
    ],
)
async def test_error_says_how_long_a_silent_plugin_was_waited_for(
    registrations: int, calls: Mapping[str, int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = SlowWorld(monkeypatch, SimpleNamespace(node="node-1", refusal="", registrations=registrations, calls=calls))
    monkeypatch.setattr("scenarios.conform.tested_plugin.SimBackend", lambda *args, **options: world)

    with pytest.raises(PluginError, match=message):
        await discovered(Subject(("./plugin",), Profile()), None)


async def test_machine_that_is_too_busy_to_start_a_plugin_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    world = SlowWorld(monkeypatch, SimpleNamespace(node="node-1", refusal="", registrations=0, calls={}))
    world.is_starved = True
    monkeypatch.setattr("scenarios.conform.tested_plugin.SimBackend", lambda *args, **options: world)

    with pytest.raises(HostError, match="no device within 90 s, and the machine was too busy"):
        await discovered(Subject(("./plugin",), Profile()), None)


async def test_resource_without_devices_counts_as_one_of_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    view = SimpleNamespace(refusal="", registrations=2, calls={"Register": 2, "ListAndWatch": 2}, options=())
    world = SlowWorld(monkeypatch, view)
    for resource, healthy in (("example.com/b", ("b-0",)), ("example.com/a", ())):
        world.trace.append(PluginRegistered("node-1", resource, "x.sock"))
        world.trace.append(DevicesListed("node-1", resource, healthy, ()))
    monkeypatch.setattr("scenarios.conform.tested_plugin.SimBackend", lambda *args, **options: world)

    found = await discovered(Subject(("./plugin",), Profile()), None)

    assert (found.resource, found.count) == ("example.com/b", 1)
    assert (found.settings["resources"], found.settings["streams"]) == (2, 4)
    assert not found.is_found


async def test_plugin_whose_calls_are_not_seen_gets_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    world = SlowWorld(monkeypatch, SimpleNamespace(refusal="", registrations=1, calls={}, options=()))
    world.trace.append(DevicesListed("node-1", "example.com/a", ("a-0",), ()))
    monkeypatch.setattr("scenarios.conform.tested_plugin.SimBackend", lambda *args, **options: world)

    with pytest.raises(HostError, match="neither in device-plugins nor in plugins_registry"):
        await discovered(Subject(("./plugin",), Profile()), None)


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"devices": 3}, "needs 3 devices; the plugin lists 2", id="devices"),
        pytest.param({"registers": True}, "", id="Register"),
        pytest.param({"preStart": True}, "the plugin does not ask for PreStartContainer", id="PreStart"),
        pytest.param({"preferredAllocation": True}, "", id="option that is on"),
        pytest.param({"breakable": True}, "no profile says how a device breaks (break:)", id="break"),
        pytest.param({"many": True}, "no profile says how the plugin lists many devices (many:)", id="many"),
        pytest.param(
            {"found": True},
            "the plugin calls Register; the kubelet finds no socket of it in plugins_registry",
            id="found",
        ),
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
            ["resources/"],
            ["resources/m*", "resources/open-files"],
            ["registers-again", "two-in-a-row", "idle-cpu", "sockets", "threads"],
            id="patterns, and what is needed",
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


def test_plugin_that_the_kubelet_finds_is_asked_for_no_register_call() -> None:
    found = replace(subject(), is_found=True)

    skipped = {check.id for check in CHECKS if "Register;" in found.reason_to_skip(check.spec.needs)}

    ordered = {check.id for check in CHECKS if "rpc: Register" in check.path.read_text()}
    assert {"registration/version", "hostile-kubelet/register-refused", "stream/opened-twice"} <= skipped
    assert ordered <= skipped


def test_check_that_does_not_apply_needs_no_other() -> None:
    plugin = subject()

    def applies(check: Any) -> bool:
        return not plugin.reason_to_skip(check.spec.needs)

    assert [check.id for check in selected(CHECKS, ["pre-start/again"], [], applies)] == ["pre-start/again"]
    assert {check.id for check in selected(CHECKS, ["allocation/paths"], [], applies)} > {"allocation/paths"}


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
    report = Report(Console(file=out), CHECKS)
    report.show_subject(subject(), [BY_ID["lists/health"], BY_ID["stream/ends"]])

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


def test_cause_of_what_was_skipped_comes_first_and_names_it() -> None:
    out, cause = io.StringIO(), "kubelet-restart/registers-again"
    report = Report(Console(file=out, width=200), CHECKS)

    report.add(result("lists/id-length", Status.WARNING, "long"))
    report.add(result("allocation/paths", Status.FAILED, "no"))
    report.add(result(cause, Status.FAILED, "no"))
    report.add(result("resources/memory", Status.SKIPPED, f"needs {cause}, which failed", cause))
    report.finish()

    lines = out.getvalue().splitlines()
    heads = [line.partition(":")[0] for line in lines if re.match("(FAILED|WARNING) .*/.*: ", line)]
    assert heads == [f"FAILED {cause}", "FAILED allocation/paths", "WARNING lists/id-length"]
    assert lines.count("  skipped until it passes: resources/memory") == 1
    assert f"  memory                       SKIPPED needs {cause}, which failed" in lines


@pytest.mark.parametrize("status", [Status.WARNING, Status.FAILED])
def test_block_of_a_check_has_the_word_of_its_verdict(status: Status) -> None:
    failure = Failure("id-length.yaml:3", "expect", (), (), number=1, total=2)
    verdict = Verdict("x", Outcome.INVALID, 1.0, "no", failure)

    lines = result_lines(Result(BY_ID["lists/id-length"], status, verdict))

    words = [word for line in lines[:2] for word in ("WARNING", "FAILED") if word in line]
    assert words == [status.upper()] * 2


def test_fix_is_above_what_happened() -> None:
    failure = Failure("memory.yaml:3", "expect", (), (Entry(0, 0.0, StepStarted(0, "expect")),), number=1, total=2)
    verdict = Verdict("x", Outcome.INVALID, 1.0, "no", failure, logs=(Path("a.log"),), log_ends={Path("a.log"): ("x",)})

    lines = result_lines(Result(BY_ID["resources/memory"], Status.FAILED, verdict))

    found = [
        next(number for number, line in enumerate(lines) if part in line) for part in ("fix it", "what happ", "a.log")
    ]
    assert lines[0] == f"FAILED resources/memory: {BY_ID['resources/memory'].summary}"
    assert found == sorted(found)


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
    assert 'class="verdict warning"' in page
    assert '<a href="#panel-1">how to fix it</a>' in page


def test_rows_of_the_page_have_names_of_their_own_and_failures_are_first(tmp_path: Path) -> None:
    checks = [BY_ID[name] for name in ("allocation/unknown-device", "hostile-kubelet/unknown-device", "lists/health")]
    report = Report(Console(file=io.StringIO()), checks, page=tmp_path)

    report.add(result("lists/health", Status.PASSED))
    report.add(result("allocation/unknown-device", Status.WARNING, "ran"))
    report.add(result("hostile-kubelet/unknown-device", Status.FAILED, "ended"))
    report.finish()

    page = (tmp_path / "index.html").read_text()
    rows = re.findall(r'<td class="name"><button[^>]*>(.*?)</button>', page)
    assert rows == ["hostile-kubelet/unknown-device", "allocation/unknown-device", "lists/health"]
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    row = re.search(r'<td class="what">(.*?)</td>', page, re.DOTALL)
    assert row is not None
    assert row[1].index(BY_ID[rows[0]].summary.replace("'", "&#39;")) < row[1].index("ended")


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


def test_profile_of_the_page_is_one() -> None:
    profile = Profile.model_validate(conformance_page.example_profile())

    assert profile.breaks == 1
    assert profile.break_ is not None
    assert profile.break_.verb == "fail"


def test_known_verdicts_name_checks() -> None:
    assert {check for _, check, _, _ in conformance_page.KNOWN} <= BY_ID.keys()


def test_failure_names_its_place_on_the_page() -> None:
    lines = result_lines(result("stream/ends", Status.FAILED, "no"))

    assert lines[-1].endswith("#streamends")
    assert "\n### stream/ends\n" in conformance_page.PAGE.read_text()
