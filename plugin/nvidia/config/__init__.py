"""The settings of the NVIDIA plugin: its flags, their variables and its file, version ``v1``."""
