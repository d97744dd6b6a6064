"""The limit on open files: raised for the simulator, unchanged for what it starts, and named where it is too low."""

from __future__ import annotations

import errno
import resource

import pytest

from simkubelet._internal.open_files import too_many
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


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES])
def test_other_errors_of_the_system_are_no_lack_of_files(number: int) -> None:
    assert too_many(OSError(number, "other")) is None
