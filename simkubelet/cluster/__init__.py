"""The cluster around simulated nodes: its objects, what kubelets see of them (`store`) and the scheduler."""

from .objects import Objects
from .scheduler import Scheduler
from .store import KubeEvent, Store
from .wall_time import WallTime

__all__ = ["KubeEvent", "Objects", "Scheduler", "Store", "WallTime"]
