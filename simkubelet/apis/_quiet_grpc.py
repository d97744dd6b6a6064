"""Loads gRPC so that it keeps to itself what it would tell its own developers on standard error.

A plugin that ends makes every connected process print a line about it, and plugins end all the time here. The setting
is read when gRPC is loaded; it is taken back at once, as plugins under test inherit the environment. Who sets
GRPC_VERBOSITY, or loads gRPC first, gets what they want.
"""

import os

_NAME = "GRPC_VERBOSITY"

if _NAME in os.environ:
    import grpc as grpc
else:
    os.environ[_NAME] = "NONE"
    try:
        import grpc as grpc
    finally:
        del os.environ[_NAME]
