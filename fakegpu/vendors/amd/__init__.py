"""Fake AMD GPUs: sysfs, device files and the metrics exporter."""
