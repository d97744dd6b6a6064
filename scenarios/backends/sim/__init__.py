"""The simulator: a kubelet in this process, plugins beside it."""
