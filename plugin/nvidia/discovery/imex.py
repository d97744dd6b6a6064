"""The IMEX channels that containers may use: device nodes over which GPUs of several nodes share memory.

Source: internal/imex/imex.go, ``GetChannels`` (k8s-device-plugin v0.19.0); the error texts are the original's.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ..go_path import join

__all__ = ["ImexChannel", "ImexError", "find_channels"]

_log = logging.getLogger(__name__)

_FOLDER: Final = "/dev/nvidia-caps-imex-channels"


class ImexError(Exception):
    """A channel that is required is not there."""


class ImexChannel(NamedTuple):
    """One channel: its device node as a container has it, and as this plugin looks for it."""

    channel_id: str
    path: str
    host_path: str


def find_channels(
    channel_ids: Sequence[int], dev_root: str, *, is_required: bool, on_host: Callable[[Path], Path]
) -> tuple[ImexChannel, ...]:
    """The channels that are there, of those asked for.

    Args:
        channel_ids: which to look for.
        dev_root: the folder above the ``dev`` in which they are looked for first.
        is_required: whether all must be there.
        on_host: where this process sees a path of the node.

    Raises:
        ImexError: one is missing, or is no device node, though all must be there.
    """
    channels = []
    for number in channel_ids:
        name = f"channel{number}"
        path = join(_FOLDER, name)
        channel = ImexChannel(str(number), path, join(dev_root, path))
        complaints = _complaints(channel, on_host)
        if complaints is None:
            _log.info("Selecting IMEX channel %s", name)
            channels.append(channel)
        elif is_required:
            raise ImexError("\n".join((*complaints, f"requested IMEX channel {name} does not exist")))
        else:
            _log.warning("Ignoring requested IMEX channel %s (%s)", name, "\n".join(complaints) or "<nil>")
    return tuple(channels)


def _complaints(channel: ImexChannel, on_host: Callable[[Path], Path]) -> list[str] | None:
    """What is wrong with the nodes that are there; None when one of them will do."""
    complaints = []
    for path in dict.fromkeys((channel.host_path, channel.path)):
        try:
            mode = on_host(Path(path)).stat().st_mode
        except OSError as error:
            if error.errno != errno.ENOENT:
                complaints.append(f"stat {path}: {os.strerror(error.errno or 0).lower()}")
            continue
        if stat.S_ISCHR(mode):
            return None
        complaints.append(f"{path} is not a character device")
    return complaints
