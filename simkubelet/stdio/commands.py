"""All commands: the tables of the modules that carry them out, in the order of the help."""

from __future__ import annotations

from typing import Final

from . import (
    checkpoint_commands,
    device_commands,
    kubelet_commands,
    monitoring_commands,
    pod_commands,
    topology_commands,
)
from .command import CommandTable

__all__ = ["COMMANDS"]

COMMANDS: Final = CommandTable(
    kubelet_commands.commands
    | pod_commands.commands
    | device_commands.commands
    | topology_commands.commands
    | monitoring_commands.commands
    | checkpoint_commands.commands
)
