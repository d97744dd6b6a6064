"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes is the machine's affair: speed is measured in bench/.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
