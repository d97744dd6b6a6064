"""When a plugin starts again, waits or ends: what its original does about kubelets, failed starts and signals."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import ClassVar, Final

__all__ = ["ORIGINAL", "OnKubelet", "OnSignal", "RestartPolicy", "caught"]


class OnKubelet(Enum):
    """What a plugin does when the kubelet's socket is made again."""

    RESTART = auto()
    """Start again in the same process."""
    EXIT = auto()
    """Exit with status 0 and leave the restart to the supervisor."""
    NOTHING = auto()
    """Go on as if nothing had happened."""


class OnSignal(Enum):
    """What a plugin does about a signal that it catches."""

    RESTART = auto()
    """Start again in the same process."""
    STOP = auto()
    """End cleanly: the sockets go, the exit status is `RestartPolicy.stop_status`."""
    NOTHING = auto()
    """Go on."""


_SIGNALS: Final[Mapping[signal.Signals, OnSignal]] = MappingProxyType(
    {
        signal.SIGHUP: OnSignal.RESTART,
        signal.SIGINT: OnSignal.STOP,
        signal.SIGTERM: OnSignal.STOP,
        signal.SIGQUIT: OnSignal.STOP,
    }
)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The rules of one plugin; with the defaults it does what kubelets need, as `simkubelet conform` checks it.

    Attributes:
        on_kubelet: What a new kubelet's socket does.
        stops_without_kubelet: Whether the plugin stops serving when the kubelet's socket is removed, until it is there
            again.
        restarts_without_socket: Whether it starts again when its own socket is removed while a kubelet listens.
        restarts_without_stream: Whether it starts again when a kubelet that listens has ended ListAndWatch and opens no
            other within two seconds: it does so only after a registration.
        attempts: How often a start is tried where registering fails, None without end; a new kubelet resets the count.
        retry_s: The pause before the next attempt.
        exits_when_spent: Whether it ends after the last attempt, with `failed_status`; otherwise it waits for the next
            kubelet.
        signals: What the signals do. Of SIGHUP, SIGINT, SIGTERM and SIGQUIT each that is missing here ends the process
            at once, as it ends a Go program that catches none: nothing is cleaned up.
        stop_status: The exit status after `OnSignal.STOP`.
        keeps_sockets: Whether the socket files stay behind after `OnSignal.STOP`.
    """

    on_kubelet: OnKubelet = OnKubelet.RESTART
    stops_without_kubelet: bool = False
    restarts_without_socket: bool = False
    restarts_without_stream: bool = True
    attempts: int | None = None
    retry_s: float = 5.0
    exits_when_spent: bool = True
    failed_status: int = 1
    signals: Mapping[signal.Signals, OnSignal] = field(default_factory=lambda: _SIGNALS)
    stop_status: int = 0
    keeps_sockets: bool = False

    IN_PROCESS: ClassVar[RestartPolicy]
    """Start again in the same process; try again after 5 s when registering fails."""
    EXIT: ClassVar[RestartPolicy]
    """Exit, with status 0 for a new kubelet and 1 for an absent one, and leave the restart to the supervisor."""


RestartPolicy.IN_PROCESS = RestartPolicy()
RestartPolicy.EXIT = RestartPolicy(
    on_kubelet=OnKubelet.EXIT,
    attempts=1,
    signals=MappingProxyType(dict.fromkeys(_SIGNALS, OnSignal.STOP)),
)

ORIGINAL: Final = RestartPolicy(restarts_without_stream=False, retry_s=30.0)
"""The rules of NVIDIA's plugin, from which those of other vendors' plugins differ in little.

Source: cmd/nvidia-device-plugin/main.go, ``start`` (k8s-device-plugin v0.19.0).
"""


_UNCAUGHT: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_GO_EXIT_STATUS: Final = 2
"""Source: runtime/signal_unix.go, ``dieFromSignal``, and ``sighandler`` for SIGQUIT (Go 1.26)."""


@contextmanager
def caught(
    actions: Mapping[signal.Signals, OnSignal], act: Callable[[signal.Signals, OnSignal], None]
) -> Iterator[None]:
    """Call `act` in the event loop for each signal of `actions` that does something.

    SIGHUP, SIGINT, SIGTERM and SIGQUIT end the process where they are missing in `actions`, with the exit status that a
    Go program has as the first process of its container, which the kernel spares from signals.
    """
    loop = asyncio.get_running_loop()
    handled = (*dict.fromkeys((*actions, *_UNCAUGHT)),)
    for number in handled:
        if number in actions:
            loop.add_signal_handler(number, act, number, actions[number])
        else:
            loop.add_signal_handler(number, _die, number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _die(_number: signal.Signals) -> None:
    """End at once and clean nothing up."""
    os._exit(_GO_EXIT_STATUS)
