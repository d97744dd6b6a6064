"""A node under test, see `tests.support.node`: each test gets a folder, a clock and a cluster of its own."""

from __future__ import annotations

from tests.support.node import make_node, node, plugin_folder, short_folder

__all__ = ["make_node", "node", "plugin_folder", "short_folder"]
