"""The limit on open files: raised for the simulator, unchanged for what it starts, and named where it is too low."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import resource
from types import SimpleNamespace

import pytest

from scenarios.play.interruption import run_interruptibly
from simkubelet._internal.open_files import too_many
from simkubelet.apis import inotify
from simkubelet.model.errors import HostError


def test_error_that_hides_too_many_open_files_is_named() -> None:
    try:
        try:
            raise OSError(errno.EMFILE, "Too many open files")
        except OSError:
            raise HostError("the folder: cannot listen") from None
    except HostError as error:
        hidden = error
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    assert too_many(ExceptionGroup("", [hidden])) == (
        f"too many open files: this process may have {limit}; allow more with 'ulimit -n', or start fewer nodes"
    )
    assert too_many(HostError("other")) is None
    assert str(too_many(ExceptionGroup("", [MemoryError()]))).startswith("no memory is left")


async def test_user_without_inotify_instances_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_flags: int) -> int:
        ctypes.set_errno(errno.EMFILE)
        return -1

    library = SimpleNamespace(inotify_init1=none_left)
    monkeypatch.setattr(inotify.ctypes, "CDLL", lambda *_args, **_options: library)

    with pytest.raises(OSError, match="inotify instance") as refused:
        inotify._Instance(asyncio.get_running_loop())

    assert too_many(refused.value) == (
        "this user has all the inotify instances that one may have; end other programs, or allow more with "
        "'sysctl fs.inotify.max_user_instances=1024'"
    )


def test_thread_that_cannot_be_started_is_named() -> None:
    # See threading.Thread.start.
    error = RuntimeError("can't start new thread")

    assert too_many(ExceptionGroup("", [error])) == (
        "no process or thread can be started; end other programs, or allow more with 'ulimit -u'"
    )
    assert too_many(RuntimeError("other")) is None


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES])
def test_other_errors_of_the_system_are_no_lack_of_files(number: int) -> None:
    assert too_many(OSError(number, "other")) is None


def test_connections_that_cannot_be_accepted_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def without_files() -> None:
        for number in (errno.EMFILE, errno.EMFILE, errno.EBADF, errno.EMFILE):
            error = OSError(number, os.strerror(number))
            asyncio.get_running_loop().call_exception_handler({"message": "accept()", "exception": error})

    run_interruptibly(without_files())

    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: too many open files: this process may have")
    assert not [line for line in others if "open files" in line]
