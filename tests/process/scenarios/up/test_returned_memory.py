"""What large objects took goes back to the system, although younger small objects are in use between their parts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.patience import LIMIT_S

_PROGRAM = """
import asyncio, json, re, sys
from pathlib import Path

from scenarios.up.memory import return_memory, use_c_allocator


def used_mb():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024


class Own:
    pass


def cycles(count):
    for number in range(count):
        one = Own()
        one.itself, one.text = one, b"x" * (1000 + number % 2)


async def once(seconds):
    if once.was_called:
        raise asyncio.CancelledError
    once.was_called = True


old = [bytes(100) for _ in range(10_000)]
is_used = use_c_allocator()
before = used_mb()
if sys.argv[1] == "parts":
    parts = [bytes(100) for _ in range(600_000)]
    kept = parts[::4000]
    del parts
else:
    import gc
    gc.disable()
    cycles(50_000)
peak = used_mb()
once.was_called = False
try:
    asyncio.run(return_memory(once))
except asyncio.CancelledError:
    pass
# What Python allocated before goes back to Python.
old = [one + b"x" for one in old]
print(json.dumps([is_used, peak - before, used_mb() - before]))
"""


@pytest.mark.parametrize("kind", ["parts", "cycles"])
def test_memory_is_returned_between_objects_in_use(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, kind], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    is_used, most_mb, left_mb = json.loads(done.stdout)
    if not is_used:
        pytest.skip("Python's allocator was left, as it is not CPython's or the C library is not glibc")

    assert most_mb - left_mb > 40
    assert left_mb < 10
