"""The machines of `tests.unit.fakegpu`, which programs look at here."""

from __future__ import annotations

from tests.unit.fakegpu.conftest import See, _no_machine_from_outside, answers, machine, nvml, see, until

__all__ = ["See", "_no_machine_from_outside", "answers", "machine", "nvml", "see", "until"]
