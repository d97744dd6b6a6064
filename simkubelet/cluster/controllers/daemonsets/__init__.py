"""DaemonSets: the API's rules for them, and the controller that keeps a pod of each on every node that it wants."""

from ...strategies.daemonsets import DaemonSetStrategy
from .controller import DaemonSetController

__all__ = ["DaemonSetController", "DaemonSetStrategy"]
