"""The HTML file of a report: all that it needs is inside it, and it loads nothing.

Rows and failures are HTML, made by jinja2. The timelines are JSON, one block for each story, which the page's script
reads when a reader opens the story: so a page with hundreds of stories opens at once.
"""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from simkubelet.host import visible
from simkubelet.model.words import number_of

from ..evaluation.verdict import Failure, Verdict
from ..story.document import shown_path
from ..trace.trace import Entry
from .differences import differences, lane_of
from .messages import clipped
from .timeline import read
from .written import page_in

_HERE: Final = Path(__file__).parent
_WARNING: Final = "warning"
_SIGNS: Final = {
    "valid": "✓",
    "invalid": "✗",
    "error": "!",
    "unknown": "?",
    "skipped": "-",
    "ended": "!",
    "unplayed": "-",
    _WARNING: "!",
}


@dataclass(frozen=True, slots=True)
class Reported:
    """A story or a check as a report has it.

    Attributes:
        summary: What it is about, in a sentence.
        recordings: Name of the backend -> the whole trace there.
        notes: Further lines for its reader, such as how to fix what failed; above the logs.
        word: In place of that of the verdict's outcome.
        is_warning: Whether what is wrong is none of what makes a run fail; of a check.
    """

    verdict: Verdict
    summary: str = ""
    recordings: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    word: str = ""
    is_warning: bool = False

    @property
    def heading(self) -> tuple[str, str]:
        """What it looks like, and the word for it."""
        outcome = self.verdict.outcome
        return _WARNING if self.is_warning else outcome.value, self.word or outcome.word


def write_report(directory: Path, stories: Sequence[Reported], wall_s: float, title: str = "simkubelet run") -> Path:
    """Write a report into a folder, which is made where it is missing, and return the file's path.

    Raises:
        OSError: It cannot be written.
    """
    path = page_in(directory)
    path.write_text(html(stories, title, wall_s, datetime.now(UTC)), encoding="utf-8")
    return path


def html(stories: Sequence[Reported], title: str, wall_s: float, written: datetime) -> str:
    """Return the page.

    Args:
        stories: In the order to show.
        title: What was run.
        wall_s: How long that took.
        written: When.
    """
    counts = Counter(story.heading for story in stories)
    order = list(_SIGNS)
    headings = sorted(counts, key=lambda heading: (order.index(heading[0]), heading[1]))
    return rendered(
        "page",
        title=title,
        written=f"{written:%Y-%m-%d %H:%M} UTC",
        duration=f"{wall_s:.1f} s",
        outcomes=[(kind, _SIGNS[kind], word, counts[kind, word]) for kind, word in headings],
        stories=[_story(number, story) for number, story in enumerate(stories, 1)],
    )


def rendered(name: str, **values: Any) -> str:
    """Return a page of this folder by its name: its template with its style and its script inside."""
    script = _files("timeline.js", f"{name}.js")
    style = _files("page.css", *(["live.css"] if name == "live" else ()))
    return rendered_from(_HERE, f"{name}.html.j2", style=style, script=script, **values)


def rendered_from(folder: Path, template: str, **values: Any) -> str:
    """Return a page from a template of any folder, which is given the style of reports and the version.

    Control characters, which a browser would obey, are escapes; timelines, which are JSON, have none.
    """
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": False}
    shared = {"number_of": number_of, "version": importlib.metadata.version("simkubelet"), "style": _files("page.css")}
    return visible(environment.get_template(template).render({**shared, **values}))


def _files(*names: str) -> str:
    return "\n".join((_HERE / name).read_text(encoding="utf-8") for name in names)


def _story(number: int, story: Reported) -> dict[str, Any]:
    """What the template shows of a story."""
    verdict, (kind, word) = story.verdict, story.heading
    different = differences(verdict.difference)
    lanes = {lane_of(one) for one in different}
    timelines = [read(name, entries).data(lanes) for name, entries in story.recordings.items() if entries]
    return {
        "number": number,
        "name": verdict.scenario,
        "outcome": kind,
        "sign": _SIGNS[kind],
        "word": word,
        "duration": f"{verdict.duration_s:.2f} s",
        "summary": story.summary,
        "reason": verdict.reason,
        "kubernetes": verdict.kubernetes,
        "repeat": verdict.repeat,
        "failure": _failure(verdict.failure),
        "logs": [(path, [*map(clipped, verdict.log_ends.get(path, ()))]) for path in verdict.logs],
        "notes": (*verdict.remedies, *story.notes),
        "differences": different,
        "timelines": timelines,
    }


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    step = f"step {failure.number} of {failure.total}: {failure.step}"
    return {
        "place": failure.location,
        "step": step if failure.number else "while its world was made",
        "waited": failure.waited,
        "mismatches": [(shown_path(one.path), one.expected, one.actual) for one in failure.mismatches],
        "diagnoses": failure.diagnoses,
    }
