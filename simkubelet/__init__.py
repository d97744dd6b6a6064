"""A simulated kubelet: what device plugins, pods and node owners can observe of a real one, without a cluster.

`SimulatedNode` runs a kubelet for tests of a plugin, `simkubelet.stories` plays stories, and `simkubelet.framework` is
for writing plugins; docs/api.md has examples. A name is loaded when it is first used.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .kubelet.kubelet import Kubelet
    from .model.clock import Clock, ManualClock, RealClock
    from .model.config import KubeletConfig
    from .model.errors import HostError, InputError, PluginError, SimkubeletError
    from .model.pod import Pod
    from .simulated_node import SimulatedNode
else:
    from ._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".kubelet.kubelet": ("Kubelet",),
            ".model.clock": ("Clock", "ManualClock", "RealClock"),
            ".model.config": ("KubeletConfig",),
            ".model.errors": ("HostError", "InputError", "PluginError", "SimkubeletError"),
            ".model.pod": ("Pod",),
            ".simulated_node": ("SimulatedNode",),
        },
    )

__all__ = [
    "Clock",
    "HostError",
    "InputError",
    "Kubelet",
    "KubeletConfig",
    "ManualClock",
    "PluginError",
    "Pod",
    "RealClock",
    "SimkubeletError",
    "SimulatedNode",
]
