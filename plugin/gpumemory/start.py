"""What the dialects' commands do at every start: see the GPUs, find the API server."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import NoReturn

from ..apiserver import AccessError, ServerAccess, access_from_environment
from ..errors import FatalError
from ..nvml.nvml import Nvml, NvmlError, session
from .gpus import Gpu, read_gpus

__all__ = ["api_server", "gpus_of_node", "wait_for_ever"]

_log = logging.getLogger(__name__)


def gpus_of_node(nvml: Nvml, sysfs: Path) -> tuple[Gpu, ...]:
    """The GPUs there are now.

    Raises:
        FatalError: NVML is missing or fails.
    """
    try:
        with session(nvml):
            return read_gpus(nvml, sysfs)
    except NvmlError as error:
        _log.warning("Failed to initialize NVML: %s.", error)
        raise FatalError(f"the GPUs cannot be read: {error}; on a GPU node NVML comes with the driver") from None


def api_server(exit_status: int) -> ServerAccess:
    """The API server that the environment names.

    Raises:
        FatalError: it names none that can be used; with `exit_status`.
    """
    try:
        return access_from_environment(os.environ)
    except AccessError as error:
        raise FatalError(str(error), exit_status) from None


def wait_for_ever() -> NoReturn:
    """Do nothing until a signal ends the process, as a Go program does that catches none."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    while True:
        signal.pause()
