"""The node's own status."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .context import NodeContext
    from .node_paths import node_path
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".context": ("NodeContext",),
            ".node_paths": ("node_path",),
        },
    )

__all__ = [
    "NodeContext",
    "node_path",
]
