"""Runs a plugin's event loop in this process, from its options to its exit status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from .errors import FatalError
from .framework import DevicePlugin, RestartPolicy, run_plugins
from .logs import set_up_logging
from .options import CommonOptions

__all__ = ["launch"]

_log = logging.getLogger(__name__)


def launch(options: CommonOptions, policy: RestartPolicy, build: Callable[[], Sequence[DevicePlugin]]) -> int:
    """Run the plugins that `build` returns until a signal, the policy or an error ends them.

    Returns:
        The exit status; the reason for one that is not 0 is the last line of the log.

    Raises:
        UsageError: the kubelet's folder cannot be used as it was named.
        HostError: the machine does not let the plugin work there.
    """
    set_up_logging(options.log_level)
    try:
        asyncio.run(run_plugins(build, options.kubelet_dir, policy))
    except FatalError as error:
        _log.error("%s", error)
        return error.exit_status
    return 0
