"""What the settings are given by: flags and variables for as long as the process lives, the file anew at every start.

Source: api/config/v1/config.go, ``NewConfig``, and flags.go (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .settings import FileSettings, NvidiaSettings, SettingsError, Sharing

__all__ = ["GivenSettings"]

_log = logging.getLogger(__name__)


class GivenSettings(NamedTuple):
    """Fields of `NvidiaSettings` by name, as flags and variables give them, and the file that gives others."""

    fields: Mapping[str, Any]
    config_file: str = ""

    def load(self) -> NvidiaSettings:
        """The settings now. A flag beats its variable, which beats the file, which beats the default.

        Raises:
            SettingsError: the file cannot be read or has a wrong value.
        """
        file = self._read()
        for warning in file.warnings:
            _log.warning("%s", warning)
        fields = {**file.fields, **self.fields}
        settings = NvidiaSettings(sharing=_sharing(file.sharing), **fields)
        return settings._replace(nvidia_dev_root=fields.get("nvidia_dev_root") or settings.nvidia_driver_root)

    def _read(self) -> FileSettings:
        if not self.config_file:
            return FileSettings()
        # Imported here: YAML is slow to load and most plugins run without a file.
        from . import ConfigError, read_config

        try:
            return read_config(Path(self.config_file))
        except ConfigError as error:
            raise SettingsError(f"unable to finalize config: unable to parse config file: {error}") from error


def _sharing(sharing: Sharing) -> Sharing:
    """With MPS a container may have one replica only, whatever the file says."""
    mps = sharing.mps
    return sharing if mps is None else sharing._replace(mps=mps._replace(fail_requests_greater_than_one=True))
