"""The tap: stands between a device plugin and its kubelet, reports their calls, and answers calls otherwise."""
