"""Fed in: flags, variables, settings; observed: the settings that a start has, and which of them are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from plugin.nvidia.config.flags import given_settings, settings_flags
from plugin.nvidia.config.settings import (
    NvidiaSettings,
    ReplicatedResource,
    ReplicatedResources,
    SettingsError,
    Sharing,
    SharingStrategy,
)

_TWO_REPLICAS = ReplicatedResources((ReplicatedResource("nvidia.com/gpu", 2),))  # type: ignore[arg-type]  # a name


@click.command()
@settings_flags
@click.pass_context
def _command(context: click.Context, **values: Any) -> NvidiaSettings:
    return given_settings(context, values).load()


def _given(*args: str) -> NvidiaSettings:
    settings = _command.main(args=args, standalone_mode=False)
    assert isinstance(settings, NvidiaSettings)
    return settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in _command.params:
        variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
        for name in variables:
            monkeypatch.delenv(name, raising=False)


def test_nothing_given_is_the_defaults() -> None:
    assert _given() == NvidiaSettings()


def test_flag_beats_variable_beats_file_beats_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "flags: {migStrategy: mixed, gdsEnabled: false, mofedEnabled: false, plugin: {deviceIDStrategy: index}}"
    )
    monkeypatch.setenv("MIG_STRATEGY", "single")
    monkeypatch.setenv("GDS_ENABLED", "T")
    monkeypatch.setenv("CONFIG_FILE", str(file))

    settings = _given("--mig-strategy=none")

    assert settings == NvidiaSettings(
        mig_strategy="none", gds_enabled=True, mofed_enabled=False, device_id_strategy="index"
    )


@pytest.mark.parametrize(
    ("args", "variables", "fields"),
    [
        pytest.param(
            [], {"GDS_ENABLED": "", "MIG_STRATEGY": ""}, {"gds_enabled": False, "mig_strategy": ""}, id="empty"
        ),
        pytest.param(["--gds-enabled"], {"GDS_ENABLED": "0"}, {"gds_enabled": True}, id="flag without a value"),
        pytest.param(["--gds-enabled=F"], {"GDS_ENABLED": "1"}, {"gds_enabled": False}, id="flag with a value"),
        pytest.param(
            ["--nvidia-driver-root=/a", "--container-driver-root=/b"],
            {},
            {"nvidia_driver_root": "/a", "nvidia_dev_root": "/a", "container_driver_root": "/b"},
            id="aliases",
        ),
        pytest.param(
            [], {"NVIDIA_CTK_PATH": "/a", "NVIDIA_CDI_HOOK_PATH": "/b"}, {"nvidia_ctk_path": "/b"}, id="two variables"
        ),
        pytest.param([], {"NVIDIA_CTK_PATH": "/a"}, {"nvidia_ctk_path": "/a"}, id="second variable"),
        pytest.param(
            ["--device-list-strategy=envvar, cdi-cri", "--device-list-strategy=volume-mounts"],
            {"DEVICE_LIST_STRATEGY": "cdi-annotations"},
            {"device_list_strategies": ("envvar", "cdi-cri", "volume-mounts")},
            id="list",
        ),
        pytest.param(
            [],
            {"DEVICE_LIST_STRATEGY": "envvar , cdi-cri"},
            {"device_list_strategies": ("envvar", "cdi-cri")},
            id="list in a variable",
        ),
        pytest.param([], {"DEVICE_LIST_STRATEGY": ""}, {"device_list_strategies": ("",)}, id="empty list"),
        pytest.param(["--imex-channel-ids=0,0x10"], {}, {"imex_channel_ids": (0, 16)}, id="numbers"),
        pytest.param([], {"IMEX_CHANNEL_IDS": "017"}, {"imex_channel_ids": (15,)}, id="number in a variable"),
        pytest.param([], {"IMEX_CHANNEL_IDS": ""}, {}, id="no number"),
    ],
)
def test_flags_and_variables_are_read_as_by_the_original(
    monkeypatch: pytest.MonkeyPatch, args: list[str], variables: dict[str, str], fields: dict[str, Any]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert _given(*args) == NvidiaSettings(**fields)


@pytest.mark.parametrize(
    ("args", "variables", "text"),
    [
        pytest.param(
            ["--imex-channel-ids=0,x"],
            {},
            'invalid value "0,x" for flag -imex-channel-ids: strconv.ParseInt: parsing "x": invalid syntax',
            id="flag",
        ),
        pytest.param(
            [],
            {"IMEX_CHANNEL_IDS": "x"},
            'could not parse "x" as int slice value from environment variable "IMEX_CHANNEL_IDS" '
            'for flag imex-channel-ids: strconv.ParseInt: parsing "x": invalid syntax',
            id="variable",
        ),
    ],
)
def test_channel_that_is_not_a_number_is_wrong_use(
    monkeypatch: pytest.MonkeyPatch, args: list[str], variables: dict[str, str], text: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(click.UsageError) as error:
        _given(*args)

    assert error.value.message == text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            NvidiaSettings(device_list_strategies=("envvar", "foo")),
            "invalid --device-list-strategy option: invalid strategy: foo",
        ),
        (NvidiaSettings(device_list_strategies=("",)), "invalid --device-list-strategy option: invalid strategy: "),
        (NvidiaSettings(device_id_strategy="x"), "invalid --device-id-strategy option: x"),
        (NvidiaSettings(device_discovery_strategy="x"), "invalid --device-discovery-strategy option x"),
        (NvidiaSettings(mig_strategy="x"), "unknown MIG strategy: x"),
        (
            NvidiaSettings(sharing=Sharing(mps=_TWO_REPLICAS), mig_strategy="mixed"),
            "using --mig-strategy=mixed is not supported with MPS",
        ),
        (NvidiaSettings(sharing=Sharing(mps=_TWO_REPLICAS)), "using MPS requires --mps-root to be specified"),
        (
            NvidiaSettings(imex_channel_ids=(0, 1)),
            "invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [0 1]",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_setting_is_refused_in_the_words_of_the_original(settings: NvidiaSettings, text: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings.validate(has_nvml=True)

    assert str(error.value) == text


def test_cdi_needs_nvml() -> None:
    settings = NvidiaSettings(device_list_strategies=("cdi-cri",))

    settings.validate(has_nvml=True)
    with pytest.raises(SettingsError, match="CDI --device-list-strategy options are only supported on NVML-based"):
        settings.validate(has_nvml=False)


@pytest.mark.parametrize(
    ("sharing", "strategy", "fails"),
    [
        (Sharing(), SharingStrategy.NONE, False),
        (Sharing(_TWO_REPLICAS), SharingStrategy.TIME_SLICING, False),
        (Sharing(mps=_TWO_REPLICAS), SharingStrategy.MPS, True),
        (Sharing(_TWO_REPLICAS, mps=_TWO_REPLICAS), SharingStrategy.MPS, True),
    ],
)
def test_sharing_strategy_follows_from_the_sections(sharing: Sharing, strategy: SharingStrategy, fails: bool) -> None:
    assert sharing.strategy is strategy
    assert sharing.fail_requests_greater_than_one is fails
