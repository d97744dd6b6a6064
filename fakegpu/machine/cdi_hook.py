"""A stand-in for ``nvidia-cdi-hook`` and ``nvidia-ctk hook``, which NVIDIA's CDI specifications name for their hooks.

An OCI runtime runs it while it creates a container: it makes the links that it is told. The rest, the cache of the
loader for one, is left: the driver's libraries lie where a loader looks anyway.

Source: cmd/nvidia-cdi-hook, cmd/nvidia-ctk/hook (nvidia-container-toolkit v1.19.0); the state on standard input: OCI
runtime specification, runtime.md, "State".
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["make_cdi_hook"]

_SCRIPT: Final = r"""#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
bundle=$(sed -n 's/.*"bundle" *: *"\([^"]*\)".*/\1/p')
root=$(realpath -e -- "${bundle:?no state of a container on standard input}/rootfs") || exit 1
[ "$1" != hook ] || shift
[ "$1" = create-symlinks ] || exit 0
for word; do
    case $word in
        *::*)
            link=$root/${word#*::}
            # A link of the image may lead out of the container.
            case $(realpath -m -- "$(dirname "$link")") in
                "$root" | "$root"/*) ;;
                *) echo "$link leads out of the container" >&2; exit 1 ;;
            esac
            mkdir -p "$(dirname "$link")"
            ln -sfn "${word%%::*}" "$link"
            ;;
    esac
done
"""


def make_cdi_hook(path: Path) -> None:
    """Makes the program.

    Raises:
        OSError: it is there, or the host does not let us write.
    """
    with path.open("x", encoding="ascii") as file:
        file.write(_SCRIPT)
    path.chmod(0o755)
