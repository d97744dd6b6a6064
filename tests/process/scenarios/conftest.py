"""The stories of `tests.support.stories`, and the folder of a kubelet's sockets."""

from __future__ import annotations

from tests.support.plugin_kubelet import kubelet_dir
from tests.support.stories import home, known, machine, node, read_story, trace, write_story

__all__ = ["home", "known", "kubelet_dir", "machine", "node", "read_story", "trace", "write_story"]
