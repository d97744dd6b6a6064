"""What ``simkubelet conform`` prints and writes: a line for each result, a table by groups, failures, files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from simkubelet.host import one_line
from simkubelet.model.words import number_of

from ..play.console import counted, print_line, result_line
from ..play.failure import failure_lines
from ..play.junit import Case, suite_of, xml_of
from ..report.written import JUNIT, is_read_once, open_output, written_for
from .checks import GROUPS, Check
from .conform import Result, Status
from .tested_plugin import Subject

_STYLES: Final = {
    Status.PASSED: "bold green",
    Status.FAILED: "bold red",
    Status.WARNING: "bold yellow",
    Status.UNKNOWN: "bold magenta",
    Status.SKIPPED: "cyan",
}
_SHOWN: Final = (Status.FAILED, Status.UNKNOWN, Status.WARNING)
_GRAVEST_FIRST: Final = (*_SHOWN, Status.PASSED, Status.SKIPPED)
_PAGE: Final = "docs/conformance.md"


def print_list(out: Console, checks: Sequence[Check]) -> None:
    """Print what there is to check, by group."""
    for group, title in GROUPS.items():
        if members := [check for check in checks if check.group == group]:
            out.print(Text(f"\n{title}", style="bold"))
            for check in members:
                mark = "" if check.spec.severity == "failure" else "  (warning)"
                out.print(Text(f"  {check.id:<48} {check.summary}{mark}"), soft_wrap=True)


class Report:
    """The report of a run: a line for each result as it comes; then a table, failures, totals and files.

    Args:
        out: Standard output.
        checks: All that may be played.
        junit: Where the verdicts are written as JUnit XML, if anywhere.
        page: The folder where a page with timelines is written, if anywhere.

    Attributes:
        results: Those that there are, in the order in which they came.

    Raises:
        InputError: A file cannot be written; it is tried before the first check.
    """

    def __init__(
        self, out: Console, checks: Sequence[Check], junit: Path | None = None, page: Path | None = None
    ) -> None:
        self.results: list[Result] = []
        self._out = out
        self._checks = checks
        self._junit = junit
        self._page = page
        self._began_s = time.monotonic()
        # A pipe or device takes the results alone.
        self._write(None if junit is None or is_read_once(junit) else junit)

    def show_subject(self, subject: Subject, checks: Sequence[Check]) -> None:
        """Print what the first start of the plugin has shown; these checks are played with it."""
        self._checks = checks
        options = ", ".join(sorted(subject.options)) or "none"
        others = [resource for resource in subject.resources if resource != subject.resource]
        beside = f"; it also registers {', '.join(others)}" if others else ""
        self._print(
            Text(one_line(f"{subject.resource}: {number_of(subject.count, 'device')}; options: {options}{beside}"))
        )

    def add(self, result: Result) -> None:
        """Take a result and print its line."""
        self.results.append(result)
        total, width = len(self._checks), max(len(check.id) for check in self._checks)
        about = result.verdict.reason if result.status is Status.SKIPPED else ""
        place, name = (len(self.results), total), result.check.id.ljust(width)
        self._print(result_line(place, _word(result), name, result.verdict.duration_s, about))

    def finish(self) -> None:
        """Write the files, and print the table by groups, what each failure shows, and the totals."""
        order = {check.id: number for number, check in enumerate(self._checks)}
        results = sorted(self.results, key=lambda result: order[result.check.id])
        try:
            self._write(self._junit, results)
        finally:
            self._show(results)

    def _show(self, results: Sequence[Result]) -> None:
        self._print(Text())
        for group, title in GROUPS.items():
            self._show_group(title, [result for result in results if result.check.group == group])
        unmeasured = skipped_for(results)
        for result in gravest_first(results):
            if result.status in _SHOWN:
                lines = result_lines(result, unmeasured.get(result.check.id, ()))
                self._print(Text("\n".join(("", *lines))))
        self._print(Text(f"\n{totals(results, time.monotonic() - self._began_s)}"))

    def _write(self, junit: Path | None, results: Sequence[Result] = ()) -> None:
        for option, path, write in (("--junit", junit, _write_junit), ("--report", self._page, self._write_page)):
            if path is not None:
                with written_for(option, path):
                    write(path, results)

    def _write_page(self, directory: Path, results: Sequence[Result]) -> None:
        from ..report.page import Reported, write_report

        unmeasured = skipped_for(results)
        checks = [
            Reported(
                result.verdict,
                result.check.summary,
                {"sim": result.events},
                notes=advice(result, unmeasured.get(result.check.id, ())) if result.status in _SHOWN else (),
                word=result.status.upper(),
                is_warning=result.status is Status.WARNING,
            )
            for result in gravest_first(results)
        ]
        write_report(directory, checks, time.monotonic() - self._began_s, "simkubelet conform")

    def _show_group(self, title: str, results: Sequence[Result]) -> None:
        if results:
            self._print(Text(title, style="bold"))
        for result in results:
            name, (word, style) = result.check.id.partition("/")[2], _word(result)
            about = result.verdict.reason if result.status is Status.SKIPPED else result.check.summary
            self._print(Text.assemble(f"  {name:<28} ", (f"{word:<7}", style), one_line(f" {about}")))

    def _print(self, text: Text) -> None:
        print_line(self._out, text)


def _word(result: Result) -> tuple[str, str]:
    """The word for a result, and its style."""
    return result.status.upper(), _STYLES[result.status]


def _write_junit(path: Path, results: Sequence[Result]) -> None:
    with open_output(path, JUNIT) as file:
        file.write(junit_xml(results))


def gravest_first(results: Sequence[Result]) -> list[Result]:
    """Results in the order in which they are read: failures first, and of these the causes of what was skipped."""
    causes = skipped_for(results)
    return sorted(results, key=lambda one: (_GRAVEST_FIRST.index(one.status), one.check.id not in causes))


def skipped_for(results: Iterable[Result]) -> Mapping[str, Sequence[str]]:
    """Id of a check that did not pass -> those that were skipped for it."""
    found: dict[str, list[str]] = {}
    for result in results:
        if result.cause:
            found.setdefault(result.cause, []).append(result.check.id)
    return found


def result_lines(result: Result, unmeasured: Sequence[str] = ()) -> list[str]:
    """What there is to know about a check that did not pass, and for which `unmeasured` ones were skipped."""
    head = f"{result.status.upper()} {result.check.id}: {result.check.summary}"
    notes = advice(result, unmeasured)
    lines = failure_lines(result.verdict, notes, result.status.upper()) or (result.verdict.reason, *notes)
    return [one_line(line) for line in (head, *(f"  {line}" for line in lines))]


def advice(result: Result, unmeasured: Sequence[str] = ()) -> tuple[str, ...]:
    """What helps the author of a plugin that does not pass a check, a line each."""
    spec = result.check.spec
    return (
        *((f"skipped until it passes: {', '.join(unmeasured)}",) if unmeasured else ()),
        f"what kubelets do (since {spec.since}): {_one_line(spec.kubelet)}",
        f"why it matters: {_one_line(spec.why)}",
        f"how to fix it: {_one_line(spec.fix)}",
        f"see {_PAGE}#{anchor(result.check.id)}",
    )


def anchor(check_id: str) -> str:
    """The name of a check's heading in links to its page."""
    return check_id.replace("/", "")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def totals(results: Sequence[Result], wall_s: float) -> str:
    """The last line: how many checks of each status, and the time from first to last."""
    counts = Counter(result.status for result in results)
    return f"{counted({status.value: counts[status] for status in Status})} in {wall_s:.1f} s"


def junit_xml(results: Sequence[Result]) -> bytes:
    """One test case per check, with its group as the class; a warning is a passed case with output."""
    return xml_of(suite_of("conform", [_case(result) for result in results]))


def _case(result: Result) -> Case:
    elements = {Status.FAILED: "failure", Status.UNKNOWN: "error", Status.SKIPPED: "skipped"}
    group, _, name = result.check.id.partition("/")
    lines = "\n".join(result_lines(result))
    return Case(
        f"conform.{group}",
        name,
        result.verdict.duration_s,
        elements.get(result.status, ""),
        {"message": result.verdict.reason},
        lines,
        lines if result.status is Status.WARNING else "",
    )
