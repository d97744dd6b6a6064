"""The container runtime: containers as book-keeping, or as processes."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .container_runtime import ContainerHandle, ContainerRuntime, ContainerStartError, ExitStatus, StartFailure
    from .cri import Cri
    from .cri_call import CriCall
    from .process_container import ContainerFiles
    from .program import container_manifest, expand, program_of, sub_path
    from .translated_files import check_containers
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
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
            ".program": ("container_manifest", "expand", "program_of", "sub_path"),
            ".translated_files": ("check_containers",),
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
    "check_containers",
    "container_manifest",
    "expand",
    "program_of",
    "sub_path",
]
