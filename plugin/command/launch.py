"""Runs a plugin's event loop in this process, from its options to its exit status."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from simkubelet.apis.deviceplugin import DEVICE_PLUGIN_PATH

from ..errors import FatalError, PluginExitError
from ..framework import DevicePlugin, RestartPolicy, run_plugins
from .options import CommonOptions
from .process import loaded, set_up_logging

__all__ = ["launch", "run"]

_log = logging.getLogger(__name__)


def launch(
    options: CommonOptions,
    policy: RestartPolicy,
    build: Callable[[], Sequence[DevicePlugin]],
    *,
    kubelet_socket: str | None = None,
) -> int:
    """Run the plugins that `build` returns until a signal, the policy or an error ends them; see `run_plugins`.

    Returns:
        The exit status; the reason for one that is not 0 is the last line of the log.

    Raises:
        UsageError: the kubelet's folder cannot be used as it was named.
        HostError: the machine does not let the plugin work there.
    """
    set_up_logging(options.log_level)
    loaded()
    try:
        return asyncio.run(run_plugins(build, options.kubelet_dir, policy, kubelet_socket=kubelet_socket))
    except FatalError as error:
        _log.error("%s", error)
        return error.exit_status


def run(
    build: Callable[[], Sequence[DevicePlugin]],
    *,
    kubelet_dir: Path = Path(DEVICE_PLUGIN_PATH),
    policy: RestartPolicy = RestartPolicy.IN_PROCESS,
    log_level: str = "info",
) -> int:
    """Be the plugins that `build` returns, as a program of its own: what it says goes to stderr.

    Args:
        build: Makes the plugins, at the start and for every new kubelet.
        kubelet_dir: The folder of ``kubelet.sock``.
        policy: When the plugins start again, wait or end.
        log_level: The least important level that is logged: debug, info, warning or error.

    Returns:
        The exit status.
    """
    try:
        return launch(CommonOptions(kubelet_dir, Path("/"), log_level), policy, build)
    except PluginExitError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
