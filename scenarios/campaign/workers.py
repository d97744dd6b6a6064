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
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from simkubelet.model.errors import HostError, InputError

_CONNECT_WITHIN: str = "10s"
_COLLECT_AFTER: Final = 20_000
"""New objects until Python looks for garbage; with its 700 that takes a fifth of a story's time."""


@dataclass(frozen=True, slots=True)
class Workers:
    """An executor with what is known of it.

    Attributes:
        count: How many play at a time.
        is_local: Whether they are processes of this machine that play nothing else.
    """

    executor: Executor
    count: int
    is_local: bool


@contextmanager
def local_workers(count: int) -> Iterator[Workers]:
    """Processes of this machine; all have ended when the context is left, in the middle of their batches."""
    # A fork of a process with threads may never get to run.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(count, mp_context=context, initializer=_begin)
    try:
        yield Workers(executor, count, is_local=True)
    finally:
        for process in multiprocessing.active_children():
            process.terminate()
        executor.shutdown(cancel_futures=True)


def _begin() -> None:
    """Set up a process: only its parent ends it, and it ends when its parent is gone."""
    gc.set_threshold(_COLLECT_AFTER)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
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
