"""The settings of the plugin as one start has them, whatever they were given by, and what makes them invalid.

Source: cmd/nvidia-device-plugin/main.go, ``validateFlags`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ...framework import ResourceName

__all__ = [
    "DeviceIdStrategy",
    "DeviceListStrategy",
    "DiscoveryStrategy",
    "FileSettings",
    "MigStrategy",
    "NvidiaSettings",
    "ReplicatedResource",
    "ReplicatedResources",
    "SettingsError",
    "Sharing",
    "SharingStrategy",
    "split_list",
]

_CDI_PREFIX: Final = "cdi-"


class MigStrategy(StrEnum):
    """Under which resource MIG devices are offered."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class DeviceListStrategy(StrEnum):
    """How a container learns of its GPUs."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"


class DeviceIdStrategy(StrEnum):
    """How GPUs are named to the container runtime."""

    UUID = "uuid"
    INDEX = "index"


class DiscoveryStrategy(StrEnum):
    """Where GPUs are looked for."""

    AUTO = "auto"
    NVML = "nvml"
    TEGRA = "tegra"


class SharingStrategy(StrEnum):
    """How several containers share one GPU."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


class SettingsError(Exception):
    """A setting has no valid value; the message is the original's."""


class ReplicatedResource(NamedTuple):
    """One resource whose devices are each offered `replicas` times, under the name `rename` if there is one."""

    name: ResourceName
    replicas: int
    rename: ResourceName | None = None


class ReplicatedResources(NamedTuple):
    """One section of the sharing settings."""

    resources: tuple[ReplicatedResource, ...] = ()
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = False

    @property
    def is_replicated(self) -> bool:
        """Whether any resource has more than one replica."""
        return any(resource.replicas > 1 for resource in self.resources)


class Sharing(NamedTuple):
    """Both sections; `mps` is None where it is not given, and the one that counts where it is."""

    time_slicing: ReplicatedResources = ReplicatedResources()
    mps: ReplicatedResources | None = None

    @property
    def strategy(self) -> SharingStrategy:
        """The strategy in force."""
        if self.mps is not None and self.mps.is_replicated:
            return SharingStrategy.MPS
        return SharingStrategy.TIME_SLICING if self.time_slicing.is_replicated else SharingStrategy.NONE

    @property
    def replicated(self) -> ReplicatedResources:
        """The section in force."""
        return self.time_slicing if self.mps is None else self.mps

    @property
    def fail_requests_greater_than_one(self) -> bool:
        """Whether a container may have one replica only."""
        return self.strategy is SharingStrategy.MPS or self.replicated.fail_requests_greater_than_one


class NvidiaSettings(NamedTuple):
    """The settings as given; the strategies are only checked by `validate`.

    `nvidia_driver_root` and `nvidia_dev_root` are folders of the node, `container_driver_root` is where this process
    sees the former; all other files that the plugin reads have the paths that they have on a node.
    """

    mig_strategy: str = MigStrategy.NONE
    fail_on_init_error: bool = True
    mps_root: str = ""
    nvidia_driver_root: str = "/"
    nvidia_dev_root: str = "/"
    gdrcopy_enabled: bool = True
    gds_enabled: bool = True
    mofed_enabled: bool = True
    device_discovery_strategy: str = DiscoveryStrategy.AUTO
    pass_device_specs: bool = False
    device_list_strategies: tuple[str, ...] = (DeviceListStrategy.ENVVAR,)
    device_id_strategy: str = DeviceIdStrategy.UUID
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    nvidia_ctk_path: str = "/usr/bin/nvidia-ctk"
    container_driver_root: str = "/driver-root"
    cdi_feature_flags: tuple[str, ...] = ()
    cdi_spec_dir: str = "/var/run/cdi"
    """Where CDI specifications are written; empty where the node's owner writes them. The original cannot choose."""
    sharing: Sharing = Sharing()
    imex_channel_ids: tuple[int, ...] = ()
    imex_required: bool = False
    use_node_feature_api: bool | None = None
    """Another program's setting in the same file, which is logged with the rest."""

    @property
    def any_cdi(self) -> bool:
        """Whether a strategy names GPUs to the container runtime by CDI."""
        return any(strategy.startswith(_CDI_PREFIX) for strategy in self.device_list_strategies)

    @property
    def only_cdi(self) -> bool:
        """Whether all strategies do."""
        return all(strategy.startswith(_CDI_PREFIX) for strategy in self.device_list_strategies)

    def validate(self, *, has_nvml: bool) -> None:
        """Check what a start checks, in its order.

        Args:
            has_nvml: whether the NVML library can be loaded.

        Raises:
            SettingsError: a value is unknown, or two of them exclude each other.
        """
        for strategy in self.device_list_strategies:
            if strategy not in list(DeviceListStrategy):
                raise SettingsError(f"invalid --device-list-strategy option: invalid strategy: {strategy}")
        if self.any_cdi and not has_nvml:
            raise SettingsError("CDI --device-list-strategy options are only supported on NVML-based systems")
        if self.device_id_strategy not in list(DeviceIdStrategy):
            raise SettingsError(f"invalid --device-id-strategy option: {self.device_id_strategy}")
        if self.sharing.strategy is SharingStrategy.MPS:
            if self.mig_strategy == MigStrategy.MIXED:
                raise SettingsError("using --mig-strategy=mixed is not supported with MPS")
            if not self.mps_root:
                raise SettingsError("using MPS requires --mps-root to be specified")
        if self.device_discovery_strategy not in list(DiscoveryStrategy):
            raise SettingsError(f"invalid --device-discovery-strategy option {self.device_discovery_strategy}")
        if self.mig_strategy not in list(MigStrategy):
            raise SettingsError(f"unknown MIG strategy: {self.mig_strategy}")
        if self.imex_channel_ids not in ((), (0,)):
            found = " ".join(map(str, self.imex_channel_ids))
            raise SettingsError(
                f"invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [{found}]"
            )


class FileSettings(NamedTuple):
    """What a file gives: fields of `NvidiaSettings` by name, what is shared, and what of it does not count."""

    fields: Mapping[str, Any] = MappingProxyType({})
    sharing: Sharing = Sharing()
    warnings: tuple[str, ...] = ()


def split_list(text: str) -> tuple[str, ...]:
    """The entries of a comma list, trimmed; an empty text is one empty entry."""
    return tuple(entry.strip() for entry in text.split(","))
