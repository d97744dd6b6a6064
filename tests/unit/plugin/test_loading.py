from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from plugin.command.process import loaded, loading


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_nothing_is_collected_while_a_plugin_is_loaded() -> None:
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_loaded_plugin_collects_but_passes_over_what_was_loaded() -> None:
    with loading():
        loaded()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
