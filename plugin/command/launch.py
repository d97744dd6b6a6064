"""Runs a plugin's event loop in this process, from its options to its exit status."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from simkubelet.apis.deviceplugin import DEVICE_PLUGIN_PATH

from ..errors import FatalError, HostError, PluginExitError, UsageError
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
    if not kubelet_dir.exists():
        print(f"error: no kubelet here: {kubelet_dir} does not exist; {_how_to_try()}", file=sys.stderr)
        return UsageError.exit_status
    try:
        return launch(CommonOptions(kubelet_dir, Path("/"), log_level), policy, build)
    except PluginExitError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except OSError as error:
        print(f"error: {_where(error)}{error.filename or 'a system call'}: {error.strerror or error}", file=sys.stderr)
        return HostError.exit_status


def _how_to_try() -> str:
    """The command that starts a simulated node with this program as its plugin."""
    # Imported here and below: a plugin that starts needs neither.
    import re
    import shlex

    program = ["python", *sys.argv] if sys.argv[0].endswith(".py") else sys.argv
    name = re.sub("[^a-z0-9]+", "-", Path(sys.argv[0]).stem.lower()).strip("-") or "mine"
    command = shlex.join(program)
    return f"try the plugin on a simulated node with: simkubelet up --plugin {shlex.quote(f'{name}={command}')}"


def _where(error: OSError) -> str:
    """``FILE:LINE: `` of the plugin's own code that an error came from; nothing where that is not in its traceback."""
    import traceback

    others = {*sys.stdlib_module_names, __name__.partition(".")[0], "simkubelet"} - {"__main__"}
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] not in others
    ]
    return "{}:{}: ".format(*frames[-1]) if frames else ""
