"""Nodes, clusters and fake GPUs for tests of device plugins; the fixtures of pytest are made of these names.

::

    with running_node() as node:
        node.start_plugin("./my-plugin", "--flag")
        node.expect(capacity={"example.com/seat": 2})

docs/pytest.md has the fixtures, and docs/api.md an example without pytest. `AsyncNode` and `AsyncCluster` are for tests
that are coroutines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # A wheel has a stub of this module in which the package is `simkubelet._bundled.scenarios`; see CMakeLists.txt.
    from scenarios.testing.api import (
        AsyncCluster,
        AsyncNode,
        AsyncPlugin,
        Cluster,
        ExpectationError,
        Node,
        PlayedStory,
        Plugin,
        running_cluster,
        running_machine,
        running_node,
    )
else:
    from ._internal import bundle

    _api = bundle.load("scenarios", "testing.api")
    globals().update({name: getattr(_api, name) for name in _api.__all__})

__all__ = [
    "AsyncCluster",
    "AsyncNode",
    "AsyncPlugin",
    "Cluster",
    "ExpectationError",
    "Node",
    "PlayedStory",
    "Plugin",
    "running_cluster",
    "running_machine",
    "running_node",
]
