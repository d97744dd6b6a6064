"""Docker's and kind's command lines as subprocesses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scenarios.backends.kind.docker import output_of
from tests.support.patience import LIMIT_S


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 6, 9, 14])
async def test_a_cancelled_command_ends_with_its_children_however_far_it_has_come(turns: int, tmp_path: Path) -> None:
    child = tmp_path / "child"
    command = asyncio.create_task(
        output_of("sh", "-c", f"sleep 600 & echo $! >{child}.new; mv {child}.new {child}; wait")
    )
    for _ in range(turns):
        await asyncio.sleep(0)

    command.cancel()
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(asyncio.CancelledError):
            await command

    assert not child.exists() or not _runs(int(child.read_text()))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
