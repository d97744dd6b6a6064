"""Plugins of NVIDIA and of Mellanox get the verdicts that their sources promise, and ours NVIDIA's; the page says so.

Of Mellanox' plugin these are the checks that tell most for their time: it takes longer to fail than to pass. With
SIMKUBELET_EVERY_CHECK=1 all of them are played.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simkubelet.apis.documents import load_yaml
from tests.support.conformance import known, verdicts
from tools.build import nvidia_plugin as build_nvidia_plugin
from tools.build import rdma_plugin as build_rdma_plugin
from tools.generate import conformance_page
from tools.generate.conformance_page import KNOWN, MELLANOX, NVIDIA, PROOFS

pytestmark = pytest.mark.nvidia_go

GROUPS = ("allocation", "preferred-allocation", "health", "stream", "instances", "hostile-kubelet", "shutdown")
PROFILE = {key: conformance_page.example_profile()[key] for key in ("gpus", "break", "heal", "breaks")}
"""What the page says of GPUs and their faults; the rest of its example would change what other checks do."""
FOUND_GROUPS = (
    *("allocation", "health", "stream", "instances", "kubelet-restart/during-admission"),
    *("hostile-kubelet/unknown-device", "hostile-kubelet/found-refused", "limits/list-size", "resources/sockets"),
)
ADAPTER = Path(__file__).with_name("rdma") / "profile.yaml"
SOURCES = {NVIDIA: build_nvidia_plugin.sources, MELLANOX: build_rdma_plugin.sources}


@pytest.fixture
def rdma_plugin() -> str:
    """Mellanox' plugin of shared RDMA devices; the nox session `nvidia` builds it and names it."""
    binary = os.environ.get("SIMKUBELET_RDMA_PLUGIN")
    if not binary:
        pytest.skip("SIMKUBELET_RDMA_PLUGIN is not set: run nox -s nvidia, which builds the plugin")
    return binary


@pytest.mark.parametrize("whose", ["NVIDIA's", "ours"])
def test_both_plugins_get_the_verdicts_of_the_page(run: Any, nvidia_plugin: str, whose: str) -> None:
    expected = known(NVIDIA, GROUPS)
    command = (sys.executable, "-m", "simkubelet", "plugin", "nvidia") if whose == "ours" else (nvidia_plugin,)

    assert asyncio.run(verdicts(command, PROFILE, GROUPS, run.scratch)) == expected


def test_plugin_that_the_kubelet_finds_gets_the_verdicts_of_the_page(run: Any, rdma_plugin: str) -> None:
    command = (rdma_plugin, "-config-file", "/etc/rdma/config.json")

    found = asyncio.run(verdicts(command, load_yaml(ADAPTER.read_text()), FOUND_GROUPS, run.scratch))

    assert found == known(MELLANOX, FOUND_GROUPS)


@pytest.mark.parametrize(("plugin", "sources"), SOURCES.items())
@pytest.mark.usefixtures("nvidia_plugin", "rdma_plugin")
def test_each_verdict_of_the_page_is_proved_by_a_line_of_the_source(plugin: str, sources: Callable[[], Path]) -> None:
    folder = sources()

    for check in [check for name, check, _, _ in KNOWN if name == plugin]:
        proof = PROOFS[plugin, check]
        assert proof.says in (folder / proof.file).read_text().splitlines()[proof.line - 1], check
