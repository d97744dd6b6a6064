"""Which resource a device belongs to.

Source: internal/rm/rm.go, ``AddDefaultResourcesToConfig``, and api/config/v1/resources.go, ``Matches``
(k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...framework.device import ResourceName
from ...nvml.nvml import Nvml, NvmlError, session
from ..config.settings import MigStrategy, NvidiaSettings
from .discovery import DiscoveryError
from .mig_profile import possible_profiles

__all__ = ["GPU_PATTERN", "GPU_RESOURCE", "ResourcePattern", "mig_patterns", "resource_of"]

_log = logging.getLogger(__name__)

GPU_RESOURCE: Final = ResourceName("nvidia.com/gpu")
_ANY: Final = "*"


class ResourcePattern(NamedTuple):
    """A resource, and the names of its devices: any, or all that contain the pattern."""

    pattern: str
    name: ResourceName

    def matches(self, text: str) -> bool:
        """Whether a GPU's name or a MIG device's profile belongs here.

        The original's patterns are not anchored either: ``1g.5gb`` takes the devices of ``1g.5gb+me`` too.
        """
        return self.pattern == _ANY or self.pattern in text


GPU_PATTERN: Final = ResourcePattern(_ANY, GPU_RESOURCE)


def mig_patterns(nvml: Nvml, settings: NvidiaSettings, *, has_nvml: bool) -> tuple[ResourcePattern, ...]:
    """The resources of MIG devices: with ``single`` that of the GPUs, with ``mixed`` one for each profile.

    Raises:
        DiscoveryError: NVML cannot be initialised though it must, or a call failed.
    """
    match settings.mig_strategy:
        case MigStrategy.SINGLE:
            return (ResourcePattern(_ANY, GPU_RESOURCE),)
        case MigStrategy.MIXED if has_nvml:
            return _profile_patterns(nvml, fail_on_init_error=settings.fail_on_init_error)
        case MigStrategy.MIXED:
            _log.warning('mig-strategy="%s" is only supported with NVML', MigStrategy.MIXED)
            _log.warning("NVML not detected: could not load NVML library")
    return ()


def resource_of(patterns: Sequence[ResourcePattern], text: str) -> ResourceName | None:
    """The resource of the first pattern that matches."""
    return next((pattern.name for pattern in patterns if pattern.matches(text)), None)


def _profile_patterns(nvml: Nvml, *, fail_on_init_error: bool) -> tuple[ResourcePattern, ...]:
    try:
        with session(nvml):
            profiles = [str(profile) for profile in possible_profiles(nvml) if profile.is_whole]
    except NvmlError as error:
        if fail_on_init_error:
            raise DiscoveryError(f"failed to initialize NVML: {error}") from error
        return ()
    return tuple(
        ResourcePattern(profile, ResourceName(f"nvidia.com/mig-{profile.replace('+', '.')}")) for profile in profiles
    )
