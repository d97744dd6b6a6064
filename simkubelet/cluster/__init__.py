"""The cluster around simulated nodes: its objects, what kubelets see of them (`store`) and the scheduler."""

from .objects.objects import Objects
from .objects.wall_time import WallTime
from .scheduler.scheduler import Scheduler
from .store.store import KubeEvent, Store

__all__ = ["KubeEvent", "Objects", "Scheduler", "Store", "WallTime"]
