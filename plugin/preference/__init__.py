"""Which devices to prefer, by the policies that the plugins of NVIDIA and Iluvatar have in common."""
