"""The container runtime: containers as book-keeping, or as processes."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .bubblewrap import check_bubblewrap
    from .container_runtime import ContainerHandle, ContainerRuntime, ContainerStartError, ExitStatus, StartFailure
    from .cri import Cri
    from .cri_call import CriCall
    from .process_container import ContainerFiles
    from .program import container_manifest, expand, program_of
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".bubblewrap": ("check_bubblewrap",),
            ".container_runtime": (
                "ContainerHandle",
                "ContainerRuntime",
                "ContainerStartError",
                "ExitStatus",
                "StartFailure",
            ),
            ".cri": ("Cri",),
            ".cri_call": ("CriCall",),
            ".process_container": ("ContainerFiles",),
            ".program": ("container_manifest", "expand", "program_of"),
        },
    )

__all__ = [
    "ContainerFiles",
    "ContainerHandle",
    "ContainerRuntime",
    "ContainerStartError",
    "Cri",
    "CriCall",
    "ExitStatus",
    "StartFailure",
    "check_bubblewrap",
    "container_manifest",
    "expand",
    "program_of",
]
