"""Fed in: conditions; observed: when the wait ends, and the complaint."""

from __future__ import annotations

import pytest

from scenarios.backends.kind.node import until
from simkubelet.model.errors import HostError


async def test_wait_ends_with_the_first_check_that_holds() -> None:
    checks = iter([False, True, False])

    async def condition() -> bool:
        return next(checks)

    await until(condition, 30, "nothing happens")

    assert list(checks) == [False]


async def test_condition_that_does_not_hold_in_time_is_complained_of() -> None:
    async def condition() -> bool:
        return False

    with pytest.raises(HostError, match=r"^nothing happens within 0 s$"):
        await until(condition, 0, "nothing happens")


async def test_complaint_has_the_latest_reason() -> None:
    reasons: list[str] = []

    async def condition() -> bool:
        reasons.append("not ready")
        return False

    with pytest.raises(HostError, match=r"^not ready within 0 s$"):
        await until(condition, 0, lambda: reasons[-1])
