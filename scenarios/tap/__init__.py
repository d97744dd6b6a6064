"""The tap: stands between a device plugin and its kubelet, tells what they say, and answers calls otherwise."""
