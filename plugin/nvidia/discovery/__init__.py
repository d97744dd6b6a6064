"""What NVML says of a node's GPUs and MIG devices, as devices of resources."""
