"""The kubelet and the NVML of `tests.unit.plugin`, for plugins that are processes."""

from __future__ import annotations

from tests.unit.plugin.conftest import FakeKubelet, _own_log, kubelet, kubelet_dir, make_nvml

__all__ = ["FakeKubelet", "_own_log", "kubelet", "kubelet_dir", "make_nvml"]
