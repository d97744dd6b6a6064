"""Stories, played from a test: `load` one, `play` it on the simulator, look at its `Verdict` and its `Trace`.

::

    verdict, trace = asyncio.run(play(load(Path("seats.yaml"))))
    assert verdict.outcome is Outcome.VALID, verdict.reason

docs/stories.md has the language of stories, and docs/api.md an example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # A wheel has a stub of this module in which the package is `simkubelet._bundled.scenarios`; see CMakeLists.txt.
    from scenarios.api import Document, DocumentError, Entry, Outcome, Trace, Verdict, load, play
else:
    from ._internal import bundle

    _api = bundle.load("scenarios", "api")
    globals().update({name: getattr(_api, name) for name in _api.__all__})

__all__ = ["Document", "DocumentError", "Entry", "Outcome", "Trace", "Verdict", "load", "play"]
