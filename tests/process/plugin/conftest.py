"""The kubelet of `tests.support.plugin_kubelet` in a short folder, and plugins that are processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.support.fake_nvml import make_nvml
from tests.support.plugin_kubelet import PluginProcess, _own_log, kubelet, kubelet_dir, plugin_process

__all__ = ["_own_log", "kubelet", "kubelet_dir", "make_nvml", "run_plugin"]


@pytest.fixture
def run_plugin(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[PluginProcess]]:
    """Runs ``simkubelet plugin`` with the arguments given, and with variables of its environment."""

    def run(*arguments: str | Path, **environment: str) -> AbstractAsyncContextManager[PluginProcess]:
        return plugin_process([str(argument) for argument in arguments], tmp_path / "log", environment)

    return run
