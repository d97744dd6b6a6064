"""The device manager: what plugins listed, who holds what, how it is chosen and how it survives a restart."""
