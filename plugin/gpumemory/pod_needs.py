"""What the pods of all plugins that share a GPU's memory need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..command.pod_needs import PodNeeds, rule

__all__ = ["sharing_needs"]

_PODS: Final = rule("", ["pods"], "get", "list", "update", "patch")


def sharing_needs(*rules: Mapping[str, Any], env: Mapping[str, str] | None = None, **others: Any) -> PodNeeds:
    """NVML, the node's name and its pods, beside these rules, variables and other fields of `PodNeeds`."""
    gpu_env = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility", **(env or {})}
    return PodNeeds(env=gpu_env, has_node_name=True, rules=(_PODS, *rules), **others)
