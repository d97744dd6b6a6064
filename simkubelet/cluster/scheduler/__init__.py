"""What the scheduler decides: the queue of pending pods, filters and scores of nodes, preemption, and its messages.

Nothing here awaits, reads a clock or writes: `simkubelet.cluster.scheduler.scheduler` does.
"""
