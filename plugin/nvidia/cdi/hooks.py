"""The hooks that a container runtime runs to finish what mounts alone cannot do; pure.

Source: internal/discover/hooks.go (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from simkubelet.apis.cdi import Hook

__all__ = ["HookMaker"]

_TOOLKIT: Final = "nvidia-ctk"
_ENV: Final = ("NVIDIA_CTK_DEBUG=false",)


@dataclass(frozen=True, slots=True)
class HookMaker:
    """Hooks that run one program of the node: the toolkit, which has them below ``hook``, or their own program."""

    program: str

    def symlinks(self, links: Sequence[str]) -> tuple[Hook, ...]:
        """Make links in the container, each ``TARGET::LINK``; no hook for none."""
        args = [part for link in links for part in ("--link", link)]
        return (self._hook("create-symlinks", args),) if links else ()

    def library_cache(self, folders: Sequence[str]) -> Hook:
        """Let the container's loader know the libraries in `folders`."""
        return self._hook("update-ldcache", [part for folder in folders for part in ("--folder", folder)])

    def forward_compatibility(self, driver_version: str) -> Hook:
        """Let the container use a CUDA library of its own that is newer than the driver's."""
        return self._hook("enable-cuda-compat", [f"--host-driver-version={driver_version}"])

    def keep_device_nodes(self) -> Hook:
        """Keep NVIDIA's programs from making device nodes in the container."""
        return self._hook("disable-device-node-modification", [])

    def _hook(self, name: str, args: Sequence[str]) -> Hook:
        base = posixpath.basename(self.program)
        own = (base, "hook") if base == _TOOLKIT else (base,)
        return Hook("createContainer", self.program, (*own, name, *args), _ENV)
