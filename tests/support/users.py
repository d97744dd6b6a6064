"""Other users than the one who runs the tests."""

from __future__ import annotations

import os
from typing import Final

import pytest

__all__ = ["BECOME_NOBODY", "NOBODY", "needs_another_user"]

NOBODY: Final = 65534

BECOME_NOBODY: Final = f"""
import os
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
"""
"""Code by which a program of root's goes on as an ordinary user, and one of any other user as that."""


def _stays_root() -> bool:
    if os.geteuid() != 0:
        return False
    try:
        os.seteuid(NOBODY)
    except OSError:
        return True
    os.seteuid(0)
    return False


needs_another_user: Final = pytest.mark.skipif(_stays_root(), reason="root without capabilities cannot be another user")
