"""NVIDIA's answers to the kubelet: which devices are preferred, and what a container gets."""
