"""What is done in place of hooks that an OCI runtime would run: those of NVIDIA's container toolkit that make links.

Source: cmd/nvidia-cdi-hook/create-symlinks (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final

from ..cdi import Hook

__all__ = ["links_of"]

_COMMAND: Final = "create-symlinks"
_OPTION: Final = "--link"


def links_of(hook: Hook) -> Mapping[str, str] | None:
    """Path in the container -> what the link there says; None for a hook that does anything else.

    The arguments are ``nvidia-cdi-hook create-symlinks --link TARGET::LINK …``, or ``nvidia-ctk hook`` and the same.
    """
    name, *words = hook.args or ("",)
    if posixpath.basename(name) == "nvidia-ctk":
        words = words[1:]
    if words[:1] != [_COMMAND]:
        return None
    given = [word for option, word in zip(words[1::2], words[2::2], strict=False) if option == _OPTION]
    pairs = (word.split("::") for word in given)
    return {link: target for target, link in pairs}
