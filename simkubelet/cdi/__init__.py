"""The Container Device Interface: files that say what a device adds to a container, and names that choose from them.

A plugin that answers Allocate with CDI devices gives names such as ``vendor.com/gpu=0``; the container runtime looks
them up in the spec files of the node. Nothing is cached: a name is looked up in the files as they are.
"""

from .names import CdiNameError, devices_in_annotations, parse_qualified_name
from .registry import DEFAULT_SPEC_DIRS, CdiRegistry, UnresolvableDevicesError
from .spec import CdiSpec, ContainerEdits, DeviceNode, Hook, IntelRdt, Mount, SpecError, parse_spec

__all__ = [
    "DEFAULT_SPEC_DIRS",
    "CdiNameError",
    "CdiRegistry",
    "CdiSpec",
    "ContainerEdits",
    "DeviceNode",
    "Hook",
    "IntelRdt",
    "Mount",
    "SpecError",
    "UnresolvableDevicesError",
    "devices_in_annotations",
    "parse_qualified_name",
    "parse_spec",
]
