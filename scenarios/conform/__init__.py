"""The checks of `simkubelet conform`: whether a device plugin does what kubelets need, on the simulator."""
