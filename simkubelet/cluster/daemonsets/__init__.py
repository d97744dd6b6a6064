"""DaemonSets: the API's rules for them, and the controller that keeps a pod of each on every node that it wants."""

from .controller import DaemonSetController
from .strategy import DaemonSetStrategy

__all__ = ["DaemonSetController", "DaemonSetStrategy"]
