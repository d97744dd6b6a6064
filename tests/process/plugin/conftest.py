"""The kubelet of `tests.support.plugin_kubelet` in a short folder, and the NVML of `tests.support.fake_nvml`."""

from __future__ import annotations

from tests.support.fake_nvml import make_nvml
from tests.support.plugin_kubelet import _own_log, kubelet, kubelet_dir

__all__ = ["_own_log", "kubelet", "kubelet_dir", "make_nvml"]
