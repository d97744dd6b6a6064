"""The nodes of `tests.unit.simkubelet`."""

from __future__ import annotations

from tests.unit.simkubelet.conftest import make_node, node, plugin_folder, short_folder

__all__ = ["make_node", "node", "plugin_folder", "short_folder"]
