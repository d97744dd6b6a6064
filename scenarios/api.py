"""The public names of this package, which users import from `simkubelet.stories`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .evaluation.verdict import Outcome, Verdict
from .play.job import Job, Options, check, play_in
from .story.document import Document, DocumentError, load
from .trace.trace import Entry, Trace

__all__ = ["Document", "DocumentError", "Entry", "Outcome", "Trace", "Verdict", "load", "play"]


async def play(
    story: Document,
    *,
    kubernetes: str | None = None,
    plugin_commands: Mapping[str, Sequence[str]] | None = None,
    directory: Path | None = None,
) -> tuple[Verdict, Trace]:
    """Play a story on the simulator, from its first step to its last or to the first expectation that is not met.

    Args:
        story: From `load`.
        kubernetes: The version of every node instead of the story's own, such as ``1.34``.
        plugin_commands: Plugin of the story -> argv to run in its place, such as the plugin under test.
        directory: Where the nodes' folders are made; they are removed at the end. The system's place for temporary
            files by default.

    Returns:
        The answer, and everything that happened.

    Raises:
        InputError: There is no such version, plugin, program or folder.
    """
    from .backends.sim.backend import SimBackend

    commands = {name: tuple(argv) for name, argv in (plugin_commands or {}).items()}
    options = Options(kubernetes=kubernetes, plugin_commands=commands, directory=directory)
    check([story], options)
    job = Job(story, options, kubernetes)
    world = SimBackend(job.document.scenario, directory, keep=False, plugin_commands=commands)
    played = await play_in(world, job, lambda title: None)
    return played.verdict, world.trace
