"""What a program that runs nodes needs of this machine: views of nodes, open files, output, logs, failures.

A plugin with a node's paths built in runs in a `NodeView`. The names are loaded when they are first used.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from ._internal.bounds import BoundProgram, Bounds, memory_for_programs, version_of_cgroups
    from ._internal.bundle import CHECKOUT, LazyModule, module_name, python_path
    from ._internal.cgroups import remove_leftovers
    from ._internal.doors import DOORS, Door, contain_failures
    from ._internal.file_tree import folder_without_links, found_without_links
    from ._internal.native import find_library
    from ._internal.open_files import raise_limit, too_many
    from ._internal.other_program import run_program
    from ._internal.output import (
        escape,
        is_unread,
        one_line,
        output_pipe,
        printable,
        styled_output,
        unprintable,
        visible,
    )
    from ._internal.piped_log import PipedLog, rotated_files
    from ._internal.sandbox import (
        NodeView,
        check_sandbox,
        cluster_home,
        has_strangers,
        is_stand_in,
        sandboxed,
        tied_to_parent,
    )
else:
    from ._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".._internal.bounds": (
                "BoundProgram",
                "Bounds",
                "memory_for_programs",
                "version_of_cgroups",
            ),
            ".._internal.bundle": ("CHECKOUT", "LazyModule", "module_name", "python_path"),
            ".._internal.cgroups": ("remove_leftovers",),
            ".._internal.doors": ("DOORS", "Door", "contain_failures"),
            ".._internal.file_tree": ("folder_without_links", "found_without_links"),
            ".._internal.native": ("find_library",),
            ".._internal.open_files": ("raise_limit", "too_many"),
            ".._internal.other_program": ("run_program",),
            ".._internal.output": (
                "escape",
                "is_unread",
                "one_line",
                "output_pipe",
                "printable",
                "styled_output",
                "unprintable",
                "visible",
            ),
            ".._internal.piped_log": ("PipedLog", "rotated_files"),
            ".._internal.sandbox": (
                "NodeView",
                "check_sandbox",
                "cluster_home",
                "has_strangers",
                "is_stand_in",
                "sandboxed",
                "tied_to_parent",
            ),
        },
    )

__all__ = [
    "CHECKOUT",
    "DOORS",
    "BoundProgram",
    "Bounds",
    "Door",
    "LazyModule",
    "NodeView",
    "PipedLog",
    "check_sandbox",
    "cluster_home",
    "contain_failures",
    "escape",
    "find_library",
    "folder_without_links",
    "found_without_links",
    "has_strangers",
    "is_stand_in",
    "is_unread",
    "memory_for_programs",
    "module_name",
    "one_line",
    "output_pipe",
    "printable",
    "python_path",
    "raise_limit",
    "remove_leftovers",
    "rotated_files",
    "run_program",
    "sandboxed",
    "styled_output",
    "tied_to_parent",
    "too_many",
    "unprintable",
    "version_of_cgroups",
    "visible",
]
