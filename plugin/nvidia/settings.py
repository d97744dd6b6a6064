"""The settings of the plugin and what makes them invalid."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["DeviceIdStrategy", "NvidiaSettings", "SettingsError", "split_list"]

_ORIGINAL_LIST_STRATEGIES: Final = frozenset(("envvar", "volume-mounts", "cdi-annotations", "cdi-cri"))
_OFFERED_LIST_STRATEGIES: Final = ("envvar", "cdi-cri")


class DeviceIdStrategy(StrEnum):
    """How GPUs are named to the container runtime."""

    UUID = "uuid"
    INDEX = "index"


class SettingsError(Exception):
    """A setting has no valid value; the message is the original's."""


@dataclass(frozen=True, slots=True)
class NvidiaSettings:
    """The settings as given; `device_id_strategy` and the strategies are only checked by `validate`."""

    fail_on_init_error: bool = True
    device_list_strategies: tuple[str, ...] = ("envvar",)
    device_id_strategy: str = DeviceIdStrategy.UUID
    gdrcopy_enabled: bool = True
    gds_enabled: bool = True
    mofed_enabled: bool = True

    def validate(self) -> None:
        """Check what a start would check.

        Raises:
            SettingsError: a strategy is unknown or not offered.
        """
        for strategy in self.device_list_strategies:
            if strategy not in _ORIGINAL_LIST_STRATEGIES:
                raise SettingsError(f"invalid --device-list-strategy option: invalid strategy: {strategy}")
        for strategy in self.device_list_strategies:
            if strategy not in _OFFERED_LIST_STRATEGIES:
                offered = " or ".join(_OFFERED_LIST_STRATEGIES)
                raise SettingsError(f"--device-list-strategy {strategy} is not offered by this plugin; use {offered}")
        if self.device_id_strategy not in list(DeviceIdStrategy):
            raise SettingsError(f"invalid --device-id-strategy option: {self.device_id_strategy}")


def split_list(text: str) -> tuple[str, ...]:
    """The entries of a comma list, trimmed; an empty text is one empty entry."""
    return tuple(entry.strip() for entry in text.split(","))
