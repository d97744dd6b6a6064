"""NVIDIA's own plugin gets the verdicts that its source promises, and so does ours; the page names them."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from tests.support.conformance import known, verdicts
from tools.generate import conformance_page

pytestmark = pytest.mark.nvidia_go

GROUPS = ("allocation", "preferred-allocation", "health", "stream", "instances", "hostile-kubelet", "shutdown")
PROFILE = {key: conformance_page.example_profile()[key] for key in ("gpus", "break", "heal", "breaks")}
"""What the page says of GPUs and their faults; the rest of its example would change what other checks do."""


@pytest.mark.parametrize("whose", ["NVIDIA's", "ours"])
def test_both_plugins_get_the_verdicts_of_the_page(run: Any, nvidia_plugin: str, whose: str) -> None:
    expected = known("NVIDIA k8s-device-plugin", GROUPS)
    command = (sys.executable, "-m", "simkubelet", "plugin", "nvidia") if whose == "ours" else (nvidia_plugin,)

    assert asyncio.run(verdicts(command, PROFILE, GROUPS, run.scratch)) == expected
