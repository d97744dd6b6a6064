"""The verdicts of a run as JUnit XML, as CI systems read it.

A story whose verdict is unknown is an ``error``, not a ``failure``: the machine failed, not the plugin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from ..evaluation.verdict import Outcome, Verdict
from .failure import failure_lines

_ELEMENTS = {Outcome.INVALID: "failure", Outcome.UNKNOWN: "error", Outcome.SKIPPED: "skipped"}
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(verdicts: Sequence[Verdict]) -> bytes:
    """One test suite with one test case per story, in order; UTF-8 with an XML declaration."""
    counts = {
        f"{element}s" if element != "skipped" else element: str(sum(v.outcome is outcome for v in verdicts))
        for outcome, element in _ELEMENTS.items()
    }
    totals = {"tests": str(len(verdicts)), **counts, "time": _seconds(sum(v.duration_s for v in verdicts))}
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "simkubelet", **totals})
    for verdict in verdicts:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": "simkubelet", "name": verdict.scenario, "time": _seconds(verdict.duration_s)},
        )
        if element := _ELEMENTS.get(verdict.outcome):
            result = ElementTree.SubElement(case, element, {"message": _clean(verdict.reason)})
            result.text = _clean("\n".join((*failure_lines(verdict), *verdict.remedies)))
    ElementTree.indent(root)
    xml: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.3f}"


def _clean(text: str) -> str:
    """Text without the characters that XML cannot hold, such as a plugin's colour codes."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
