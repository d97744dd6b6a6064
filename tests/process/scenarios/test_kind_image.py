"""The image of plugins and stand-ins, as an archive for a node's containerd."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from scenarios.backends.kind.image import image_source

PROGRAMS = """
from plugin.cli import PLUGINS, plugins
import asyncio
from scenarios.backends.kind import agent
from scenarios.backends.world import hardware

asyncio.run(agent.Agent().do_pod_resources([]))
assert all(plugins.get_command(None, plugin) for plugin in PLUGINS)
"""


def test_our_own_code_is_the_upper_layer() -> None:
    source = image_source()

    own = {str(path) for path in source.own}
    assert any(path.endswith("scenarios/backends/kind/agent.py") for path in own)
    assert own.isdisjoint(map(str, source.others))
    assert Path(source.image.python) in source.others
    assert image_source().image.name == source.image.name


def test_the_image_has_all_that_its_programs_import(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    for file in image_source().own:
        place = tmp_path / file.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.read_bytes())
    # Without `site`, which would find the checkout.
    path = os.pathsep.join([str(tmp_path), sysconfig.get_path("purelib")])

    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", PROGRAMS],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
