"""The DRA manager answers as the kubelet's own did when the sequences were recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.dra_node import DraWorld
from tests.support.dra_sequences import play, recorded_sequences


@pytest.mark.parametrize("sequence", [pytest.param(sequence, id=sequence["name"]) for sequence in recorded_sequences()])
async def test_manager_answers_as_recorded(make_world: Callable[[], DraWorld], sequence: dict[str, Any]) -> None:
    world = make_world()

    found = await play(sequence, world.folder, world.ask)

    assert not found, "\n".join(found)
