"""Who plays the stories of a campaign: processes of this machine, or the workers of a dask scheduler.

Both are executors of `concurrent.futures`, so that the campaign does not know which it has. A worker that is killed
takes its batch with it: dask gives the batch to another worker, the processes of this machine end the run.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, Final

from simkubelet.model.errors import HostError, InputError

_CONNECT_WITHIN: str = "10s"
_COLLECT_AFTER: Final = 20_000
"""New objects until Python looks for garbage; with its 700 that takes a fifth of a story's time."""
_SAFE_PATH: Final = "PYTHONSAFEPATH"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def nothing(number: int, frame: FrameType | None) -> None:
    """Take a signal that changes nothing, in place of SIG_IGN: plugins would inherit that.

    And Python would complain of a signal that came before it was ignored.
    """


@dataclass(frozen=True, slots=True)
class Workers:
    """An executor with what is known of it.

    Attributes:
        count: How many play at a time.
        is_local: Whether they are processes of this machine that play nothing else.
        end: Ends those of this machine, in the middle of their batches; may be called twice.
    """

    executor: Executor
    count: int
    is_local: bool
    end: Callable[[], None] = lambda: None


@contextmanager
def local_workers(count: int) -> Iterator[Workers]:
    """Processes of this machine; all have ended when the context is left, in the middle of their batches."""
    # A fork of a process with threads may never get to run.
    context = multiprocessing.get_context("spawn")
    with _starting():
        # It ignores other signals by itself.
        resource_tracker.ensure_running()
    with _starting():
        executor = ProcessPoolExecutor(count, mp_context=context, initializer=_begin)
        # The first call starts them all.
        executor.submit(os.getpid)

    def end() -> None:
        for process in multiprocessing.active_children():
            process.kill()
        executor.shutdown(cancel_futures=True)

    try:
        yield Workers(executor, count, is_local=True, end=end)
    finally:
        end()


@contextmanager
def _starting() -> Iterator[None]:
    """Let processes that are started meanwhile take no signal of a terminal before they say what it does.

    And load no module of the working directory, which belongs to somebody else perhaps: what `multiprocessing` starts
    would look there first.
    """
    before, was_safe = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS), os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if was_safe is None:
            del os.environ[_SAFE_PATH]
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Set up a process: only its parent ends it, and it ends when its parent is gone."""
    gc.set_threshold(_COLLECT_AFTER)
    for number in _SIGNALS:
        signal.signal(number, nothing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with_parent, name="end with the parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def dask_workers(address: str) -> Iterator[Workers]:
    """The workers of a scheduler; what they have not begun is taken back when the context is left.

    Raises:
        InputError: The address is none, or no scheduler answers there.
        HostError: dask is not installed.
    """
    try:
        import distributed
    except ModuleNotFoundError:
        raise HostError(
            "--scheduler: the Python package distributed is missing; install it with: pip install 'simkubelet[dask]'"
        ) from None
    try:
        # Its classes have no types.
        client: Any = distributed.Client(address, timeout=_CONNECT_WITHIN, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            f"--scheduler: no scheduler answers at '{address}': {reason}; start one with: dask scheduler"
        ) from None
    with client:
        count = sum(client.nthreads().values())
        if not count:
            raise InputError(f"--scheduler: '{address}' has no workers; start some with: dask worker {address}")
        yield Workers(client.get_executor(pure=False), count, is_local=False)
