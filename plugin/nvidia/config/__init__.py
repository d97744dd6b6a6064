"""The configuration file of the NVIDIA plugin, version ``v1``."""

from .config_file import read_config
from .decoding import ConfigError

__all__ = ["ConfigError", "read_config"]
