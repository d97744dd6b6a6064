"""Stories on nodes that joined a real control plane leave the traces that they leave on the simulator alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scenarios.backends.join.backend import FIXED_BY_THE_SERVER
from scenarios.story import stories
from scenarios.story.document import load
from tests.support import recorded
from tests.support.stories import IS_ABOUT_OTHERS, covering, skipped_in, verbs_of
from tools.control_plane import ControlPlane

START_S = 2.0
"""Of a story, besides what the recording shows."""


def test_stories_with_every_verb_have_the_trace_of_the_simulator(plane: ControlPlane, tmp_path: Path) -> None:
    """Of the stories that a kind cluster can play, which are those about what clusters do, too."""
    lasted = {name: START_S + recorded.duration_s(name, release) for name, release in recorded.recorded()}
    known = {name: load(path).scenario for name, path in stories.builtin().items() if name in lasted}
    chosen = covering(
        {name: one for name, one in known.items() if not one.needed & FIXED_BY_THE_SERVER}, lasted, verbs_of
    )
    report = tmp_path / "report.xml"

    words = ["run", *sorted(chosen), "--backend", "both", "--kubeconfig", str(plane.kubeconfig), "--junit", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "simkubelet", *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert done.returncode == 0, done.stdout + done.stderr
    told = skipped_in(report)
    assert len(told) == len(chosen)
    assert [why for why in told.values() if why is not None and not why.startswith(IS_ABOUT_OTHERS)] == []
