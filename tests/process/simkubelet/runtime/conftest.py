"""Where bubblewrap cannot work, the tests of this folder are skipped with its reason."""

from __future__ import annotations

import pytest

from simkubelet.model.errors import HostError
from simkubelet.runtime.bubblewrap import check_bubblewrap


@pytest.fixture(scope="session", autouse=True)
def _can_run() -> None:
    try:
        check_bubblewrap()
    except HostError as error:
        pytest.skip(str(error))
