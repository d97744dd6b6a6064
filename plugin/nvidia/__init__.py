"""The NVIDIA plugin: ``nvidia.com/gpu``, whole GPUs found through NVML, as k8s-device-plugin v0.19.0 serves them."""

__all__: list[str] = []
