"""CDI specifications: how a container runtime brings GPUs, the driver and what helps them into a container."""

from .node_files import CdiError
from .writing import write_specs

__all__ = ["CdiError", "write_specs"]
