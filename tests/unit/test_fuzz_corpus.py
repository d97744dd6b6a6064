"""The inputs that the session `fuzz` keeps, each of which reaches other code."""

from __future__ import annotations

import pytest

from tests.support.fuzz_targets import CORPUS, TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_kept_inputs_are_read_or_refused(target: str) -> None:
    inputs = sorted((CORPUS / target).iterdir())
    assert inputs
    for path in inputs:
        TARGETS[target](path.read_bytes())
