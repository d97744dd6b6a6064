"""Kubernetes' sample device plugin gets the verdicts that its source promises; the page names them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.support.conformance import known, verdicts

GROUPS = ("registration", "lists", "allocation", "stream", "instances", "hostile-kubelet", "shutdown")
PROFILE = {"wait": "30s", "watch": "4s"}
"""For a new kubelet it registers ten seconds after it has seen the socket; it sends one list, and no other ever."""


@pytest.fixture
def sample_plugin() -> str:
    path = os.environ.get("SIMKUBELET_ORACLE_SAMPLE_PLUGIN")
    if path is None:
        pytest.skip("SIMKUBELET_ORACLE_SAMPLE_PLUGIN is not set, as the nox session `oracle` does")
    return path


async def test_sample_plugin_gets_the_verdicts_of_the_page(sample_plugin: str) -> None:
    expected = known("Kubernetes sample-device-plugin", GROUPS)

    # Of a check that fails the logs are kept.
    with tempfile.TemporaryDirectory(prefix="sk-") as folder:
        assert await verdicts((sample_plugin,), PROFILE, GROUPS, Path(folder)) == expected
