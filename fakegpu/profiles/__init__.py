"""Profiles: the models of GPUs, as YAML files and as checked values."""
