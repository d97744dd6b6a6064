"""Verdicts as JUnit XML, as CI systems read it: those of a run, and cases of any other command.

An ``error`` is a story that says nothing about its plugin: a step of it cannot be done, or the machine failed; `type`
has the word for which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.etree import ElementTree

from simkubelet.host import visible

from ..evaluation.verdict import Outcome, Verdict
from .failure import failure_lines

_ELEMENTS: Final = {
    Outcome.INVALID: "failure",
    Outcome.ERROR: "error",
    Outcome.UNKNOWN: "error",
    Outcome.SKIPPED: "skipped",
    Outcome.ENDED: "error",
    Outcome.UNPLAYED: "skipped",
}
_COUNTS: Final = {"failure": "failures", "error": "errors", "skipped": "skipped"}
"""Element of a test case -> attribute of a suite with their number."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test case.

    Attributes:
        classname: Under which readers group it.
        name: Its own.
        duration_s: How long it took.
        element: ``failure``, ``error`` or ``skipped``; empty where it passed.
        about: The attributes of that element.
        text: The text of that element.
        output: What else there is to read.
        place: Further attributes of the case, such as its file.
        properties: Name -> value; empty ones are left out.
    """

    classname: str
    name: str
    duration_s: float
    element: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    output: str = ""
    place: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


def suite_of(name: str, cases: Sequence[Case]) -> ElementTree.Element:
    """Make one test suite of test cases, in order."""
    found = Counter(case.element for case in cases)
    counts = {attribute: str(found[element]) for element, attribute in _COUNTS.items()}
    time_s = _seconds(sum(case.duration_s for case in cases))
    suite = ElementTree.Element("testsuite", {"name": name, "tests": str(len(cases)), **counts, "time": time_s})
    for case in cases:
        _add_case(suite, case)
    return suite


def xml_of(root: ElementTree.Element) -> bytes:
    """Return UTF-8 with an XML declaration; what XML cannot hold, and other control characters, are escapes."""
    ElementTree.indent(root)
    for element in root.iter():
        element.text = visible(element.text or "")
        element.attrib.update({name: visible(value) for name, value in element.attrib.items()})
    xml: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def junit_xml(verdicts: Sequence[Verdict]) -> bytes:
    """One test suite with one test case per story, in order."""
    suite = suite_of("simkubelet", [_case(verdict) for verdict in verdicts])
    root = ElementTree.Element("testsuites", {key: value for key, value in suite.items() if key != "name"})
    root.append(suite)
    return xml_of(root)


def _case(verdict: Verdict) -> Case:
    """A story: where it is, Kubernetes version and round, the result, and how the logs of its plugins end."""
    lines = [line for log, end in verdict.log_ends.items() for line in (f"{log}:", *end)]
    return Case(
        "simkubelet",
        verdict.scenario,
        verdict.duration_s,
        _ELEMENTS.get(verdict.outcome, ""),
        {"type": verdict.outcome.word, "message": verdict.reason},
        "\n".join((*failure_lines(verdict), *verdict.remedies)),
        "\n".join(lines),
        {} if verdict.path is None else {"file": str(verdict.path), "line": str(verdict.line)},
        {"kubernetes": verdict.kubernetes, "round": verdict.round},
    )


def _add_case(suite: ElementTree.Element, case: Case) -> None:
    about = {"classname": case.classname, "name": case.name, "time": _seconds(case.duration_s), **case.place}
    element = ElementTree.SubElement(suite, "testcase", about)
    if given := {name: value for name, value in case.properties.items() if value}:
        properties = ElementTree.SubElement(element, "properties")
        for name, value in given.items():
            ElementTree.SubElement(properties, "property", {"name": name, "value": value})
    if case.element:
        ElementTree.SubElement(element, case.element, dict(case.about)).text = case.text
    if case.output:
        ElementTree.SubElement(element, "system-out").text = case.output


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.3f}"
