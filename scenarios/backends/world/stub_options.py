"""The stub's command line, the same in every world."""

from __future__ import annotations

from ...story.plugin_spec import Serves
from ...story.verbs.plugin_action import devices_in_full


def stub_options(name: str, serves: Serves) -> list[str]:
    """The words after ``plugin stub`` for what a story's stub serves."""
    options = ["--resource", serves.resource, "--socket", serves.socket or f"{name}.sock"]
    for device in devices_in_full(serves.devices):
        nodes = [f"numa={node}" for node in device["numa"]]
        options += ["--device", ",".join([device["id"], f"health={device['health']}", *nodes])]
    flags = {"--pre-start": serves.pre_start, "--preferred-allocation": serves.preferred_allocation}
    return [*options, "--registers", serves.registers.value, *(flag for flag, is_set in flags.items() if is_set)]
