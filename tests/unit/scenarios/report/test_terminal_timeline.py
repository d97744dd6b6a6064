"""A trace that is still recorded, as a picture and as lines in a terminal."""

from __future__ import annotations

import asyncio
import io

from rich.console import Console
from rich.text import Text

from scenarios.report.live_view import LiveView
from scenarios.report.terminal import TerminalTimeline
from scenarios.trace.events import FaultInjected, PluginStarted
from scenarios.trace.trace import Entry, Event
from simkubelet.model.events import (
    DevicesAllocated,
    DevicesListed,
    EventRecorded,
    KubeletStarted,
    KubeletStopped,
    PluginRegistered,
    PodStatusUpdated,
)

GPU = "example.com/gpu"
EVENTS = (
    KubeletStarted("node-1", "v1.34.4"),
    PluginStarted("mine", "node-1", 1),
    PluginRegistered("node-1", GPU, "mine.sock"),
    DevicesListed("node-1", GPU, ("gpu-0", "gpu-1"), ()),
    PodStatusUpdated("trainer", "Pending", "", ""),
    DevicesAllocated("node-1", "trainer", "main", GPU, ("gpu-0",)),
    PodStatusUpdated("trainer", "Running", "", ""),
    FaultInjected("node-1", "gpu-1", 79),
    EventRecorded("trainer", "Normal", "Started", "[bold]no markup[/bold]", "kubelet"),
    DevicesListed("node-1", GPU, ("gpu-0",), ("gpu-1",)),
    KubeletStopped("node-1"),
)
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


def entries(*events: Event) -> list[Entry]:
    return [Entry(seq, float(seq), event, seq / 2) for seq, event in enumerate(events)]


def picture(*events: Event, width: int = 80, height: int = 30) -> list[str]:
    timeline = TerminalTimeline("mine")
    for entry in entries(*events):
        timeline.take(entry)
    out = io.StringIO()
    Console(file=out, width=width, height=height).print(timeline)
    return [one.rstrip() for one in out.getvalue().splitlines()]


def test_picture_shows_lanes_and_the_latest_messages() -> None:
    lines = picture(*EVENTS)

    assert lines[:8] == [
        "mine",
        "faults              ○",
        "API server       ○ ○ ○",
        "kubelet      ●━●●━○━━━◆●",
        "plugin mine   ●○○━━━━━○━━━",
        "gpu-0           ━━████████",
        "gpu-1           ━━━━◆!✗!!!",
        "pod trainer      ●●●━●━━━━",
    ]
    assert lines[8].startswith("━ up, healthy  █ held")
    assert lines[-1].endswith(" the kubelet has ended")
    assert len(lines) == 9 + 8


def test_picture_fits_a_small_terminal() -> None:
    lines = picture(*EVENTS, width=30, height=9)

    assert (len(lines), lines[3]) == (7, "and 5 more")
    assert max(map(len, lines)) <= 30
    assert len(picture(*EVENTS, width=5, height=2)) == 5


def test_latest_moments_are_seen_where_not_all_have_room() -> None:
    lines = picture(*EVENTS * 20, width=40)

    assert [len(one) for one in lines[3:5]] == [38, 40]
    assert lines[3].endswith("●━●●━○━━━◆●")


def test_picture_without_moments_has_only_its_frame() -> None:
    assert len(picture()) == 2


def shown(*events: Event, is_terminal: bool = True, is_drawn: bool = True, term: str = "xterm") -> str:
    """What is written when these happen in one story, which ends, and a line is printed."""

    async def show() -> None:
        view.start()
        for entry in entries(*events):
            view.take("story", entry)
        view.update(Text("1/2 below"))
        await asyncio.sleep(0.2)
        view.finish()
        console.print("PASSED")
        view.stop()

    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal, width=100, height=30, _environ={"TERM": term})
    view = LiveView(console, is_drawn=is_drawn)
    asyncio.run(show())
    return out.getvalue()


def test_terminal_keeps_the_last_picture_above_what_is_printed_and_its_cursor() -> None:
    text = shown(*EVENTS)

    assert (text.count(HIDE_CURSOR), text.count(SHOW_CURSOR)) == (1, 1)
    assert text.index(HIDE_CURSOR) < text.index("1/2 below") < text.index("PASSED") < text.index(SHOW_CURSOR)
    assert "the kubelet has ended" in text[: text.index("PASSED")]
    assert "kubelet" not in text[text.index("PASSED") :]


def test_what_is_no_terminal_gets_a_line_for_each_entry_at_once() -> None:
    for text in (shown(*EVENTS, is_terminal=False), shown(*EVENTS, is_drawn=False), shown(*EVENTS, term="dumb")):
        lines = text.splitlines()
        assert len(lines) == len(EVENTS) + 1
        expected = (
            "story     2.000 s     1.000 s  plugin mine → kubelet             Register example.com/gpu at mine.sock"
        )
        assert expected in lines[2]
        assert "[bold]no markup[/bold]" in lines[8]
        assert HIDE_CURSOR not in text


def test_next_story_begins_a_new_picture() -> None:
    async def show() -> None:
        view.start()
        for entry in entries(*EVENTS):
            view.take("first", entry)
        for entry in entries(KubeletStarted("node-9", "v1.34.4")):
            view.take("second", entry)
        view.stop()

    out = io.StringIO()
    view = LiveView(Console(file=out, force_terminal=True, width=100, height=30, _environ={"TERM": "xterm"}))
    asyncio.run(show())

    text = out.getvalue()
    assert text.index("the kubelet has ended") < text.index("second")
    assert "pod trainer" not in text[text.index("second") :]
