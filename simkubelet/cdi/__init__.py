"""The CDI devices of a node: spec files are read and checked, and names choose devices from them.

A plugin that answers Allocate with CDI devices gives names such as ``vendor.com/gpu=0``; the container runtime looks
them up in the spec files of the node. Nothing is cached: a name is looked up in the files as they are. What a
specification contains is in `simkubelet.apis.cdi`.
"""

from .registry import CdiRegistry, UnresolvableDevicesError, devices_in_annotations
from .spec import CdiNameError, SpecError, parse_qualified_name, parse_spec

__all__ = [
    "CdiNameError",
    "CdiRegistry",
    "SpecError",
    "UnresolvableDevicesError",
    "devices_in_annotations",
    "parse_qualified_name",
    "parse_spec",
]
