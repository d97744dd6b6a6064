"""What the plugin manager does with plugins of the type DevicePlugin: it hands them to the registration server.

Source: devicemanager/plugin/v1beta1/handler.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .registration import RegistrationServer

__all__ = ["DEPRECATION_FILE_NAME", "DevicePluginHandler"]

DEPRECATION_FILE_NAME: Final = "DEPRECATION"

_log = logging.getLogger(__name__)


class DevicePluginHandler:
    """Device plugins found by the plugin watcher, as clients of one registration server."""

    def __init__(self, registration: RegistrationServer) -> None:
        self._registration = registration

    @staticmethod
    def mark(directory: Path) -> None:
        """Leave the empty file DEPRECATION in the device plugin folder, as each kubelet does when it starts.

        A kubelet that cannot goes on without it.

        Source: devicemanager/plugin/v1beta1/handler.go, ``GetPluginHandler`` (kubernetes v1.26.15 to v1.37.0).
        """
        try:
            (directory / DEPRECATION_FILE_NAME).write_bytes(b"")
        except OSError as error:
            _log.error("Failed to create deprecation file at socket dir %s: %s", directory, error)

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        return self._registration.validate_plugin(name, endpoint, versions)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        return await self._registration.register_plugin(name, endpoint)

    async def deregister(self, name: str, endpoint: str) -> None:
        await self._registration.deregister_plugin(name, endpoint)
