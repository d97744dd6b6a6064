"""Names of resources in a configuration file.

Source: api/config/v1/resources.go, ``NewResourceName`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import re
from typing import Final

from ...framework.device import ResourceName
from .errors import ConfigError

__all__ = ["resource_name"]

_PREFIX: Final = "nvidia.com/"
_MAX_LENGTH: Final = 63
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def resource_name(text: str) -> ResourceName:
    """A full name from one with or without NVIDIA's domain.

    Raises:
        ConfigError: it is too long, or no name that Kubernetes takes.
    """
    name = text if text.startswith(_PREFIX) else _PREFIX + text
    if len(name.encode()) > _MAX_LENGTH:
        raise ConfigError(f"fully-qualified resource name must be {_MAX_LENGTH} characters or less: {name}")
    if not re.fullmatch(_SUBDOMAIN, name.removeprefix(_PREFIX)):
        raise ConfigError(
            f"incorrect format for resource name '{name}': [a lowercase RFC 1123 subdomain must consist of lower case "
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
            f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')]"
        )
    return ResourceName(name)
