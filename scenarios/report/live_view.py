"""What goes on, shown as it happens: a picture that is drawn again on a terminal, a line for each entry elsewhere."""

from __future__ import annotations

import asyncio
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ..trace.trace import Entry
from .terminal import TerminalTimeline, entry_line

_REFRESH_S: Final = 0.1
_BETWEEN_WIDTH: Final = 32
"""Of the column of lanes, where lines are printed before it is known what lanes there are."""


class LiveView:
    """Shows one trace after the other, from `start` to `stop`; what is printed meanwhile stands above.

    Args:
        terminal: Where to show it.
        is_drawn: Whether a terminal gets a picture; if not, it gets lines as a file does.
    """

    def __init__(self, terminal: Console, *, is_drawn: bool = True) -> None:
        self.terminal = terminal
        self._timeline: TerminalTimeline | None = None
        self._below = Text()
        self._refresh: asyncio.TimerHandle | None = None
        can_draw = is_drawn and terminal.is_terminal and not terminal.is_dumb_terminal
        self._live = Live(console=terminal, auto_refresh=False, transient=True) if can_draw else None

    def start(self) -> None:
        """Begin to draw."""
        if self._live is not None:
            self._live.start()

    def stop(self) -> None:
        """Leave the latest picture, and the terminal as it was; may be called twice."""
        self.finish()
        if self._live is not None:
            self._live.stop()

    def update(self, below: Text) -> None:
        """Show this below the picture."""
        self._below = below
        self._draw_soon()

    def take(self, name: str, entry: Entry) -> None:
        """Show an entry of the trace of this name; the first one of a trace ends the one before."""
        if self._timeline is None or entry.seq == 0:
            self.finish()
            self._timeline = TerminalTimeline(name)
        moment = self._timeline.take(entry)
        if self._live is None:
            self.terminal.print(Text(f"{name}  ").append_text(entry_line(moment, _BETWEEN_WIDTH)), soft_wrap=True)
        self._draw_soon()

    def finish(self) -> None:
        """Leave the picture of a trace that has come to its end above what comes."""
        timeline, self._timeline = self._timeline, None
        if self._refresh is not None:
            self._refresh.cancel()
            self._refresh = None
        if self._live is not None:
            self._live.update(self._below, refresh=True)
            if timeline is not None:
                self.terminal.print(timeline)

    def _draw_soon(self) -> None:
        if self._live is not None and self._refresh is None:
            self._refresh = asyncio.get_running_loop().call_later(_REFRESH_S, self._draw)

    def _draw(self) -> None:
        self._refresh = None
        if self._live is not None:
            parts = [self._below] if self._timeline is None else [self._timeline, self._below]
            self._live.update(Group(*parts), refresh=True)
