"""The verdicts of a run as JUnit XML, as CI systems read it.

An ``error`` is a story that says nothing about its plugin: a step of it cannot be done, or the machine failed; `type`
has the word for which.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree

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
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(verdicts: Sequence[Verdict]) -> bytes:
    """One test suite with one test case per story, in order; UTF-8 with an XML declaration."""
    found = Counter(_ELEMENTS.get(verdict.outcome) for verdict in verdicts)
    counts = {name: str(found[element]) for element, name in _COUNTS.items()}
    totals = {"tests": str(len(verdicts)), **counts, "time": _seconds(sum(v.duration_s for v in verdicts))}
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "simkubelet", **totals})
    for verdict in verdicts:
        _add_case(suite, verdict)
    ElementTree.indent(root)
    xml: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _add_case(suite: ElementTree.Element, verdict: Verdict) -> None:
    """Add a story: where it is, Kubernetes version and round, the result, and how the logs of its plugins end."""
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {"classname": "simkubelet", "name": verdict.scenario, "time": _seconds(verdict.duration_s)},
    )
    if verdict.path is not None:
        case.attrib |= {"file": str(verdict.path), "line": str(verdict.line)}
    if given := {name: value for name, value in _properties(verdict).items() if value}:
        properties = ElementTree.SubElement(case, "properties")
        for name, value in given.items():
            ElementTree.SubElement(properties, "property", {"name": name, "value": value})
    if element := _ELEMENTS.get(verdict.outcome):
        about = {"type": verdict.outcome.word, "message": cleaned(verdict.reason)}
        result = ElementTree.SubElement(case, element, about)
        result.text = cleaned("\n".join((*failure_lines(verdict), *verdict.remedies)))
    if verdict.log_ends:
        lines = [line for log, end in verdict.log_ends.items() for line in (f"{log}:", *end)]
        ElementTree.SubElement(case, "system-out").text = cleaned("\n".join(lines))


def _properties(verdict: Verdict) -> dict[str, str]:
    return {"kubernetes": verdict.kubernetes, "round": verdict.round}


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.3f}"


def cleaned(text: str) -> str:
    """Text without the characters that XML cannot hold, such as a plugin's colour codes."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
