"""``python -m plugin NAME``: run one device plugin."""

from __future__ import annotations

import os
import sys

from .cli import main

if __name__ == "__main__":
    status = main(prog_name="python -m plugin")
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is closed by now. Taking the interpreter down would cost 70 ms, and would unload NVML under a health
    # thread that may still wait in it.
    os._exit(status)
