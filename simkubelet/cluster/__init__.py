"""The cluster around simulated nodes: the objects (`store`) and the scheduler."""

from .scheduler import Scheduler
from .store import KubeEvent, Store

__all__ = ["KubeEvent", "Scheduler", "Store"]
