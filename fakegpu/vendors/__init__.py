"""Fake devices of other vendors than NVIDIA: files that their plugins read."""
