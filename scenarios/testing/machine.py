"""Fake GPUs for a test that has no node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fakegpu import Machine

from ..backends.world.folders import own_folder
from ..backends.world.hardware import make_gpus
from ..backends.world.node import as_story_errors
from .checked import checked_node


@contextmanager
def running_machine(gpus: Mapping[str, Any]) -> Iterator[Machine]:
    """Fake GPUs until the end of the block.

    Args:
        gpus: The keys of ``gpus`` in a story: ``profile``, ``count``, ``mig``, ``seed``.

    Raises:
        InputError: There is no such key or profile.
        HostError: The machine cannot make them.
    """
    spec = checked_node({"name": "node-1", "gpus": gpus}).gpus
    with own_folder(None) as folder:
        with as_story_errors():
            machine = make_gpus(folder / "machine", **spec.model_dump())  # type: ignore[union-attr]  # it was given
        try:
            yield machine
        finally:
            machine.close()
