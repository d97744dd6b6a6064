"""gRPC as it goes over a socket: HTTP/2 frames, flow control, messages and errors.

``frames`` and ``messages`` are data, ``outbox`` sends what the other side can take, ``end`` is one connection of either
side. A tap stands between two ends; a plugin's server and its call to the kubelet have one each.
"""
