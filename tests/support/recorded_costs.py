"""What the real compiler and interpreter say of selectors: the estimate, the answer or the failure, and the cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from simkubelet.cluster.objects.objects import JSON

__all__ = ["RECORDED", "recorded_costs"]

RECORDED: Final = Path(__file__).parents[1] / "oracle" / "costs.jsonl"


def recorded_costs() -> list[JSON]:
    """The recorded answers with their ``expression``; the device is that of `random_expressions`."""
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
