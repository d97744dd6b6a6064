"""Plugins that share a GPU by its memory: a scheduler writes into a pod's annotations which GPU it is to have.

One engine (`shared_gpu`, `api_objects`, `gpus`) and a module for each dialect: doslab's gpu-memory, Aliyun's gpushare,
volcano's gpu-memory and gpu-number, and its vgpu.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..command.pod_needs import PodNeeds, rule

__all__ = ["sharing_needs"]

_PODS: Final = rule("", ["pods"], "get", "list", "update", "patch")


def sharing_needs(*rules: Mapping[str, Any], env: Mapping[str, str] | None = None, **others: Any) -> PodNeeds:
    """Return what the pods of all these plugins need: NVML, the node's name and its pods.

    Args:
        rules: Further rules of the cluster.
        env: Further variables.
        others: Other fields of `PodNeeds`.
    """
    gpu_env = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility", **(env or {})}
    return PodNeeds(env=gpu_env, has_node_name=True, rules=(_PODS, *rules), **others)
