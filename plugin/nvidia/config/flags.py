"""The flags of the plugin and their variables, named as in the original, and the settings that they and the file give.

Nothing has a default here: what is not given may still be given by the file. Flags and variables count for as long as
the process lives, the file is read again at every start.

Source: cmd/nvidia-device-plugin/main.go and api/config/v1, ``NewConfig`` (k8s-device-plugin v0.19.0);
flag_int_slice.go (urfave/cli v2.27.7).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from ...command.options import EnvironmentOption, FilePath, go_bool_option
from .settings import FileSettings, NvidiaSettings, SettingsError, Sharing, split_list

__all__ = ["GivenSettings", "given_settings", "settings_flags"]

_log = logging.getLogger(__name__)

_F = TypeVar("_F", bound=Callable[..., object])
_Flag = Callable[[_F], _F]

_GIVEN = (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)


class GivenSettings(NamedTuple):
    """Fields of `NvidiaSettings` by name, as flags and variables give them, and the file that gives others."""

    fields: Mapping[str, Any]
    config_file: str = ""

    def load(self) -> NvidiaSettings:
        """The settings now. A flag beats its variable, which beats the file, which beats the default.

        Raises:
            SettingsError: the file cannot be read or has a wrong value.
        """
        file = self._read()
        for warning in file.warnings:
            _log.warning("%s", warning)
        fields = {**file.fields, **self.fields}
        settings = NvidiaSettings(sharing=_sharing(file.sharing), **fields)
        return settings._replace(nvidia_dev_root=fields.get("nvidia_dev_root") or settings.nvidia_driver_root)

    def _read(self) -> FileSettings:
        if not self.config_file:
            return FileSettings()
        # Imported here: YAML is slow to load and most plugins run without a file.
        from .config_file import read_config
        from .decoding import ConfigError

        try:
            return read_config(Path(self.config_file))
        except ConfigError as error:
            raise SettingsError(f"unable to finalize config: unable to parse config file: {error}") from error


def _sharing(sharing: Sharing) -> Sharing:
    """With MPS a container may have one replica only, whatever the file says."""
    mps = sharing.mps
    return sharing if mps is None else sharing._replace(mps=mps._replace(fail_requests_greater_than_one=True))


def settings_flags(command: _F) -> _F:
    """Give a command all flags, as keyword arguments named as the fields of `NvidiaSettings`, and ``config_file``."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def given_settings(context: click.Context, values: dict[str, Any]) -> GivenSettings:
    """Of the values that a command with `settings_flags` was called with, those that a flag or a variable gave."""
    config_file: str = values.pop("config_file")
    given = {name: value for name, value in values.items() if context.get_parameter_source(name) in _GIVEN}
    return GivenSettings(given, config_file)


class _ListOption(EnvironmentOption):
    """A comma list, which may also be given entry by entry; flags replace the variable's list."""

    def value_from_envvar(self, ctx: click.Context) -> tuple[str, ...] | None:
        text = self.resolve_envvar_value(ctx)
        return None if text is None else (text,)


class _NumbersOption(_ListOption):
    """Such a list whose variable, if empty, counts as not given."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return super().resolve_envvar_value(ctx) or None


def _split(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(entry for text in texts for entry in split_list(text))


def _numbers(context: click.Context, option: click.Parameter, texts: Sequence[str]) -> tuple[int, ...]:
    return tuple(_number(entry, text, context, option) for text in texts for entry in split_list(text))


def _number(entry: str, text: str, context: click.Context, option: click.Parameter) -> int:
    with suppress(ValueError):
        if entry.isascii() and entry == entry.strip():
            return int(entry, 8 if entry.isdecimal() and entry.startswith("0") else 0)
    name, variable = option.opts[0].lstrip("-"), option.envvar
    reason = f'strconv.ParseInt: parsing "{entry}": invalid syntax'
    if context.get_parameter_source(option.name or "") is click.core.ParameterSource.ENVIRONMENT:
        raise click.UsageError(
            f'could not parse "{text}" as int slice value from environment variable "{variable}" for flag {name}: '
            f"{reason}"
        )
    raise click.UsageError(f'invalid value "{text}" for flag -{name}: {reason}')


def _text(*names: str, variables: Sequence[str], default: str, metavar: str, text: str) -> _Flag[Any]:
    return click.option(
        *names,
        cls=EnvironmentOption,
        envvar=variables,
        show_envvar=True,
        default=str(default),
        show_default=bool(default),
        metavar=metavar,
        help=text,
    )


_DEFAULTS = NvidiaSettings()

_FLAGS: Sequence[_Flag[Any]] = (
    _text(
        "--mig-strategy",
        variables=["MIG_STRATEGY"],
        default=_DEFAULTS.mig_strategy,
        metavar="none|single|mixed",
        text="How to offer MIG devices: not at all, as GPUs, or as one resource for each profile.",
    ),
    go_bool_option(
        "--fail-on-init-error",
        "FAIL_ON_INIT_ERROR",
        default=_DEFAULTS.fail_on_init_error,
        text="Exit with status 1 when NVML is missing or fails; otherwise serve nothing and wait.",
    ),
    _text(
        "--driver-root",
        "--nvidia-driver-root",
        "nvidia_driver_root",
        variables=["NVIDIA_DRIVER_ROOT"],
        default=_DEFAULTS.nvidia_driver_root,
        metavar="DIR",
        text="Where the driver is installed on the node.",
    ),
    _text(
        "--dev-root",
        "--nvidia-dev-root",
        "nvidia_dev_root",
        variables=["NVIDIA_DEV_ROOT"],
        default="",
        metavar="DIR",
        text="The node's folder that contains its device nodes; the driver root if not given.",
    ),
    go_bool_option(
        "--pass-device-specs",
        "PASS_DEVICE_SPECS",
        default=_DEFAULTS.pass_device_specs,
        text="Also give containers the device nodes of their GPUs, which the kubelet's CPU manager needs.",
    ),
    click.option(
        "--device-list-strategy",
        "device_list_strategies",
        cls=_ListOption,
        multiple=True,
        callback=_split,
        envvar="DEVICE_LIST_STRATEGY",
        show_envvar=True,
        show_default=_DEFAULTS.device_list_strategies[0],
        metavar="LIST",
        help="How a container gets its GPUs: any of envvar, volume-mounts, cdi-annotations and cdi-cri.",
    ),
    _text(
        "--device-id-strategy",
        variables=["DEVICE_ID_STRATEGY"],
        default=_DEFAULTS.device_id_strategy,
        metavar="uuid|index",
        text="How to name the GPUs to the container runtime.",
    ),
    go_bool_option(
        "--gdrcopy-enabled",
        "GDRCOPY_ENABLED",
        default=_DEFAULTS.gdrcopy_enabled,
        text="Set NVIDIA_GDRCOPY=enabled in every container.",
    ),
    go_bool_option(
        "--gds-enabled",
        "GDS_ENABLED",
        default=_DEFAULTS.gds_enabled,
        text="Set NVIDIA_GDS=enabled in every container.",
    ),
    go_bool_option(
        "--mofed-enabled",
        "MOFED_ENABLED",
        default=_DEFAULTS.mofed_enabled,
        text="Set NVIDIA_MOFED=enabled in every container.",
    ),
    _text(
        "--cdi-annotation-prefix",
        variables=["CDI_ANNOTATION_PREFIX"],
        default=_DEFAULTS.cdi_annotation_prefix,
        metavar="PREFIX",
        text="Prefix of the keys of CDI annotations.",
    ),
    _text(
        "--nvidia-cdi-hook-path",
        "--nvidia-ctk-path",
        "nvidia_ctk_path",
        variables=["NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"],
        default=_DEFAULTS.nvidia_ctk_path,
        metavar="PATH",
        text="The program on the node for the hooks of CDI specifications.",
    ),
    _text(
        "--driver-root-ctr-path",
        "--container-driver-root",
        "container_driver_root",
        variables=["DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"],
        default=_DEFAULTS.container_driver_root,
        metavar="DIR",
        text="Where the driver root is mounted in this container.",
    ),
    _text(
        "--mps-root",
        variables=["MPS_ROOT"],
        default="",
        metavar="DIR",
        text="The folder of the MPS control daemon on the node.",
    ),
    _text(
        "--device-discovery-strategy",
        variables=["DEVICE_DISCOVERY_STRATEGY"],
        default=_DEFAULTS.device_discovery_strategy,
        metavar="auto|nvml|tegra",
        text="How to find GPUs.",
    ),
    click.option(
        "--imex-channel-ids",
        "imex_channel_ids",
        cls=_NumbersOption,
        multiple=True,
        callback=_numbers,
        envvar="IMEX_CHANNEL_IDS",
        show_envvar=True,
        metavar="LIST",
        help="The IMEX channels that every container gets: none, or 0.",
    ),
    go_bool_option(
        "--imex-required",
        "IMEX_REQUIRED",
        default=_DEFAULTS.imex_required,
        text="Exit with status 1 when an IMEX channel is missing; otherwise continue without it.",
    ),
    click.option(
        "--cdi-feature-flags",
        "cdi_feature_flags",
        cls=_ListOption,
        multiple=True,
        callback=_split,
        envvar="CDI_FEATURE_FLAGS",
        show_envvar=True,
        metavar="LIST",
        help="Feature flags for the generation of CDI specifications.",
    ),
    click.option(
        "--cdi-spec-dir",
        "cdi_spec_dir",
        default=_DEFAULTS.cdi_spec_dir,
        show_default=True,
        metavar="DIR",
        help="Where to write CDI specifications; empty: write none. The original does not have this option.",
    ),
    click.option(
        "--config-file",
        cls=EnvironmentOption,
        envvar="CONFIG_FILE",
        show_envvar=True,
        type=FilePath(),
        default="",
        metavar="FILE",
        help="A file with settings in YAML or JSON; read again at every start.",
    ),
)
