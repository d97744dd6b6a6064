"""The machines of `tests.support.machines`."""

from __future__ import annotations

from tests.support.machines import _no_machine_from_outside, answers, foreign, h100, load, machine, nvml

__all__ = ["_no_machine_from_outside", "answers", "foreign", "h100", "load", "machine", "nvml"]
