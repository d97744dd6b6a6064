"""What the agent of a kind node sees of processes."""

import signal
from pathlib import Path

from scenarios.backends.kind.agent import catches


def test_a_process_catches_a_signal_once_it_has_a_handler() -> None:
    me = Path("/proc/self")
    before = signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    try:
        assert not catches(me, signal.SIGUSR2)
        signal.signal(signal.SIGUSR2, lambda *_: None)
        assert catches(me, signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
