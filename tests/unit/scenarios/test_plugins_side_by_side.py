"""Who runs in a view of the node: a foreign plugin, and each bundled one beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.backends.world import plugins as world_plugins
from scenarios.backends.world.node import SimNode
from scenarios.backends.world.plugins import SimPlugins
from scenarios.story.specs import NodeSpec, PluginSpec
from scenarios.trace.trace import Trace
from simkubelet.model.clock import ManualClock

BUNDLED = PluginSpec(name="bundled", builtin="gopher")
OTHER = PluginSpec(name="other", builtin="gopher")
FOREIGN = PluginSpec(name="foreign", command=("true",))


@pytest.mark.parametrize(
    ("specs", "replacements", "seen"),
    [
        ((BUNDLED, OTHER), {}, set()),
        ((BUNDLED, FOREIGN), {}, {"bundled", "foreign"}),
        ((BUNDLED, OTHER), {"other": ("true",)}, {"bundled", "other"}),
    ],
    ids=["bundled ones", "beside a foreign one", "beside one that takes another's place"],
)
def test_bundled_plugin_runs_in_a_view_beside_a_foreign_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    specs: tuple[PluginSpec, ...],
    replacements: dict[str, tuple[str, ...]],
    seen: set[str],
) -> None:
    monkeypatch.setattr(world_plugins, "_seen", lambda node, program, folder: ["view", *program])
    clock = ManualClock()
    node = SimNode(NodeSpec(name="node-1"), tmp_path)

    made = SimPlugins(specs, replacements, clock, Trace(now=clock.now)).add_node(node)

    assert {one.command.name for one in made if one.command.argv[0] == "view"} == seen
