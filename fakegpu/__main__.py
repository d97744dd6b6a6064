"""``python -m fakegpu``: the command of the same name."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
