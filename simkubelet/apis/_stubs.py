"""gRPC's stubs and servicers of an API, loaded when one is first asked for: who needs none starts sooner and smaller.

gRPC is loaded so that it keeps to itself what it would report to its own developers on standard error: a plugin that
ends makes every connected process print a line, and plugins end all the time here. The setting is read when gRPC is
loaded; it is taken back at once, as plugins under test inherit the environment. Who sets GRPC_VERBOSITY, or loads gRPC
first, gets what they want.
"""

import importlib
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

_VERBOSITY: Final = "GRPC_VERBOSITY"
_ENDINGS: Final = ("Servicer", "Stub", "_to_server")


def stubs_of(api: str, generated: str, names: Iterable[str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of an API's module.

    Args:
        api: The module's name.
        generated: The module with gRPC's code, in ``_generated``.
        names: What the API's module exports; stubs and servicers are known by their endings.
    """
    stubs = frozenset(name for name in names if name.endswith(_ENDINGS))

    def getattr_of_api(name: str) -> Any:
        if name not in stubs:
            raise AttributeError(f"module {api!r} has no attribute {name!r}")
        _load_grpc()
        return getattr(importlib.import_module(f"._generated.{generated}", __package__), name)

    return getattr_of_api


def _load_grpc() -> None:
    if _VERBOSITY in os.environ:
        return
    os.environ[_VERBOSITY] = "NONE"
    try:
        importlib.import_module("grpc")
    finally:
        del os.environ[_VERBOSITY]
