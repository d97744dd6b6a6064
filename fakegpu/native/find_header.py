"""Print the folder of ``nvml.h`` as the package nvidia-nvml-dev installed it; exit status 1 when it is missing."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path


def main() -> int:
    """Print the folder, or nothing."""
    try:
        installed = files("nvidia-nvml-dev") or []
    except PackageNotFoundError:
        return 1
    for file in installed:
        if file.name == "nvml.h":
            print(Path(str(file.locate())).resolve().parent)
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
