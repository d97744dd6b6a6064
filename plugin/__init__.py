"""Device plugins and the small framework that they share; always a process of its own.

A plugin knows the kubelet's wire contracts and its hardware, nothing else: the same program serves a simulated kubelet
and a real one, fake GPUs and real ones. Start one with ``python -m plugin NAME`` (see `cli`).
"""

__all__: list[str] = []
