"""The end of a kubelet process by a fault of its own, as some sequences of real minors bring about."""

from __future__ import annotations

__all__ = ["KubeletPanicError"]


class KubeletPanicError(Exception):
    """The kubelet of this minor would end here; the message is the first line of its panic."""
