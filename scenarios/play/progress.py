"""What a person who waits sees: one live line with the stories under way and their steps, on a terminal only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console

from .job import RunProgress


@contextlib.contextmanager
def live_progress() -> Iterator[RunProgress]:
    """Show steps on standard error as they begin; silent where that is no terminal."""
    terminal = Console(stderr=True, highlight=False)
    if not terminal.is_terminal:
        yield lambda story, title: None
        return
    with terminal.status("starting") as status:
        yield lambda story, title: status.update(f"[bold]{story}[/bold]  {title}")
