"""The sections about bugs in the built-in stories, and the command that lists them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from scenarios.story.bug import KUBERNETES, Bug
from scenarios.story.document import load
from scenarios.story.known_bugs import KnownBug, known_bugs
from scenarios.story.stories import builtin
from simkubelet.cli import main
from simkubelet.model.errors import InputError
from simkubelet.model.version import SUPPORTED, version

KNOWN = known_bugs()
OF_KUBERNETES = [known for known in KNOWN if known.bug.component in KUBERNETES]


def story_of(known: KnownBug) -> str:
    return known.story


def is_simulated(release: str) -> bool:
    try:
        version(release)
    except InputError:
        return False
    return True


def test_every_story_about_a_bug_names_it() -> None:
    named = {known.story for known in KNOWN}

    assert [name for name in builtin() if name.startswith("bugs/") and name not in named] == []
    assert named == {name for name, path in builtin().items() if load(path).scenario.bug is not None}


@pytest.mark.parametrize("known", [known for known in KNOWN if "bugs/" in known.story], ids=story_of)
def test_story_about_a_bug_begins_with_its_id(known: KnownBug) -> None:
    assert known.story.startswith(f"bugs/{known.bug.id.lower()}-")


def test_each_bug_has_one_story_in_the_order_of_ids() -> None:
    ids = [known.bug.id for known in KNOWN]

    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids, key=lambda each: (each[0], int(each[1:])))


@pytest.mark.parametrize("known", KNOWN, ids=story_of)
def test_section_is_complete(known: KnownBug) -> None:
    bug = known.bug

    assert bug.links or bug.id in {"K20", "R3", "R5", "R8", "R9", "R10", "R12"}, "no report is known of these only"
    assert len(set(bug.links)) == len(bug.links)
    assert bug.component in KUBERNETES or re.fullmatch(r"[\w-]+/[\w.-]+", bug.component)
    assert not re.search(r"\S#\d", known.title), "the section has the links"


@pytest.mark.parametrize("known", OF_KUBERNETES, ids=story_of)
def test_version_with_the_fix_is_not_affected(known: KnownBug) -> None:
    fixed = [release for release in known.bug.fixed if is_simulated(release)]

    assert [release for release in fixed if known.bug.is_in_kubernetes(release)] == []


@pytest.mark.parametrize(
    "known", [known for known in OF_KUBERNETES if any(map(is_simulated, known.bug.fixed))], ids=story_of
)
def test_bug_with_a_fix_is_played_on_both_sides(known: KnownBug) -> None:
    versions = load(known.path).scenario.versions or ()

    assert {known.bug.is_in_kubernetes(each) for each in versions} == {True, False}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"id": "k4"}, id="small letter"),
        pytest.param({"links": ["https://github.com/a/b/issues/1"]}, id="address"),
        pytest.param({"links": ["#109595"]}, id="link without a repository"),
        pytest.param({"affected": "old ones"}, id="words about the kubelet"),
        pytest.param({"component": "kube-scheduler", "affected": "old ones"}, id="words about the scheduler"),
        pytest.param({"component": " "}, id="nobody's bug"),
        pytest.param({"fixed": [1.27]}, id="a number"),
        pytest.param({"since": "1.26"}, id="unknown key"),
    ],
)
def test_wrong_section_is_refused(change: dict[str, Any]) -> None:
    right = {"id": "K4", "links": ["kubernetes/kubernetes#109595"], "component": "kubelet", "affected": "<1.27.2"}
    Bug.model_validate(right)

    with pytest.raises(ValidationError):
        Bug.model_validate(right | change)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["bugs", *arguments])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def listed(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()]


def test_list_has_a_line_for_each_bug(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys)

    assert (status, err) == (0, "")
    assert listed(out) == [known.bug.id for known in KNOWN]
    for line, known in zip(out.splitlines(), KNOWN, strict=True):
        assert line.endswith(f"  {known.title}")
        assert f"  {known.story} " in line
        assert f"  {known.bug.affected} " in line


@pytest.mark.parametrize(
    ("kubernetes", "has", "lacks"),
    [
        pytest.param("1.26.4", {"K1", "K4", "K13"}, {"K6", "R2", "R5", "P9"}, id="before a fix"),
        pytest.param("1.26.5", {"K1", "K6", "K13"}, {"K4", "R2", "P9"}, id="the fix's own bug"),
        pytest.param("1.34", {"K8", "R5"}, {"K4", "K27", "R2"}, id="minor"),
        pytest.param("1.34.7", {"R5"}, {"K8"}, id="patch with the fix"),
        pytest.param("1.37", {"R2", "R3"}, {"K1", "K31", "K17"}, id="newest"),
    ],
)
def test_version_has_its_own_bugs(
    capsys: pytest.CaptureFixture[str], kubernetes: str, has: set[str], lacks: set[str]
) -> None:
    status, out, _ = run(capsys, "--kubelet-version", kubernetes)

    found = set(listed(out))
    assert status == 0
    assert has <= found
    assert not lacks & found


@pytest.mark.parametrize(
    ("text", "bug"),
    [
        pytest.param("#124716", "K3", id="link"),
        pytest.param("NVIDIA/k8s-device-plugin#1014", "P9", id="other link"),
        pytest.param("gb200 MACHINES", "K31", id="description"),
        pytest.param("r5-device", "R5", id="story"),
    ],
)
def test_bug_is_found_by_what_is_known_of_it(capsys: pytest.CaptureFixture[str], text: str, bug: str) -> None:
    assert listed(run(capsys, "--search", text)[1]) == [bug]


def test_version_and_text_both_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(run(capsys, "--search", "#124716", "--kubelet-version", "1.34")[1]) == ["K3"]
    status, out, err = run(capsys, "--search", "#140323", "--kubelet-version", "1.37")
    assert (status, out) == (0, "")
    assert err == "no such bug is known; 'simkubelet bugs' lists all that are\n"


@pytest.mark.parametrize("kubernetes", ["1.99", "1", "newest", ""])
def test_unknown_version_is_one_line(capsys: pytest.CaptureFixture[str], kubernetes: str) -> None:
    status, out, err = run(capsys, "--kubelet-version", kubernetes)

    assert (status, out) == (2, "")
    assert err == f"error: kubernetes version '{kubernetes}' is not simulated; choose one of {', '.join(SUPPORTED)}\n"
