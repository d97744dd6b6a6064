"""Fed in: configuration files; observed: the settings they give, or the words with which the original refuses them.

The words were those of NVIDIA's plugin v0.19.0 when it was given the same files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from plugin.nvidia.config.config_file import read_config
from plugin.nvidia.config.decoding import ConfigError

_JSON = "unmarshal error: error unmarshaling JSON: while decoding JSON"
_SLICES = "Sharing.sharing.timeSlicing"
_LONG_NAME = "a" * 60
_BAD_NAME = (
    f"{_JSON}: incorrect format for resource name '{{}}': [a lowercase RFC 1123 subdomain must consist of lower case "
    "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    r"regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]"
)


def _mismatch(kind: str, place: str, go_type: str) -> str:
    """A value of a kind that the field at a place does not take."""
    return f"{_JSON}: json: cannot unmarshal {kind} into Go struct field {place} of type {go_type}"


def _resource(text: str) -> str:
    """A file that shares one resource."""
    return f"sharing: {{timeSlicing: {{resources: [{text}]}}}}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("flags: {migStrategy: 1}", _mismatch("number", "Flags.flags.CommandLineFlags.migStrategy", "string")),
        ("flags: {migStrategy: [a]}", _mismatch("array", "Flags.flags.CommandLineFlags.migStrategy", "string")),
        ("flags: {migStrategy: {a: b}}", _mismatch("object", "Flags.flags.CommandLineFlags.migStrategy", "string")),
        ("flags: {migStrategy: true}", _mismatch("bool", "Flags.flags.CommandLineFlags.migStrategy", "string")),
        ("flags: {migStrategy: 1.5}", _mismatch("number", "Flags.flags.CommandLineFlags.migStrategy", "string")),
        (
            "flags: {failOnInitError: maybe}",
            _mismatch("string", "Flags.flags.CommandLineFlags.failOnInitError", "bool"),
        ),
        ("flags: {failOnInitError: 1}", _mismatch("number", "Flags.flags.CommandLineFlags.failOnInitError", "bool")),
        (
            "flags: {failOnInitError: 'true'}",
            _mismatch("string", "Flags.flags.CommandLineFlags.failOnInitError", "bool"),
        ),
        (
            "flags: {plugin: {passDeviceSpecs: x}}",
            _mismatch("string", "PluginCommandLineFlags.flags.CommandLineFlags.plugin.passDeviceSpecs", "bool"),
        ),
        ("flags: {plugin: 3}", _mismatch("number", "Flags.flags.CommandLineFlags.plugin", "v1.PluginCommandLineFlags")),
        ("flags: 3", _mismatch("number", "Config.flags", "v1.Flags")),
        ("flags: [1]", _mismatch("array", "Config.flags", "v1.Flags")),
        ("[]", f"{_JSON}: json: cannot unmarshal array into Go value of type v1.Config"),
        ("3", f"{_JSON}: json: cannot unmarshal number into Go value of type v1.Config"),
        ("foo", f"{_JSON}: json: cannot unmarshal string into Go value of type v1.Config"),
        ("version: 1", "unknown version: 1"),
        ("version: [v1]", _mismatch("array", "Config.version", "string")),
        ("version: v2", "unknown version: v2"),
        ("flags: {plugin: {deviceListStrategy: 3}}", f"{_JSON}: invalid deviceListStrategy: 3"),
        ("flags: {plugin: {deviceListStrategy: [1, 2]}}", f"{_JSON}: invalid deviceListStrategy: [1,2]"),
        ("flags: {plugin: {deviceListStrategy: {a: b}}}", f'{_JSON}: invalid deviceListStrategy: {{"a":"b"}}'),
        ("sharing: 3", _mismatch("number", "Config.sharing", "v1.Sharing")),
        ("sharing: {timeSlicing: 3}", _mismatch("number", _SLICES, "map[string]json.RawMessage")),
        ("sharing: {timeSlicing: {}}", f"{_JSON}: no resources specified"),
        ("sharing: {timeSlicing: null}", f"{_JSON}: no resources specified"),
        ("sharing: {mps: {}}", f"{_JSON}: no resources specified"),
        ("sharing: {mps: []}", _mismatch("array", "Sharing.sharing.mps", "map[string]json.RawMessage")),
        ("sharing: {timeSlicing: {resources: 3}}", _mismatch("number", _SLICES, "[]v1.ReplicatedResource")),
        (_resource(""), f"{_JSON}: no resources specified"),
        ("sharing: {timeSlicing: {resources: null}}", f"{_JSON}: no resources specified"),
        (_resource("3"), _mismatch("number", _SLICES, "map[string]json.RawMessage")),
        (_resource("null"), f"{_JSON}: no resource name specified"),
        (_resource("{}"), f"{_JSON}: no resource name specified"),
        (_resource("{name: gpu}"), f"{_JSON}: no replicas specified"),
        (_resource("{name: gpu, replicas: 1}"), f"{_JSON}: number of replicas must be >= 2"),
        (_resource("{name: gpu, replicas: x}"), _mismatch("string", _SLICES, "int")),
        (_resource("{name: gpu, replicas: 2.5}"), _mismatch("number 2.5", _SLICES, "int")),
        (_resource("{name: gpu, replicas: null}"), f"{_JSON}: number of replicas must be >= 2"),
        (
            _resource("{name: gpu, replicas: 99999999999999999999}"),
            _mismatch("number 99999999999999999999", _SLICES, "int"),
        ),
        (
            "sharing: {timeSlicing: {renameByDefault: x, resources: [{name: gpu, replicas: 2}]}}",
            _mismatch("string", _SLICES, "bool"),
        ),
        (
            "sharing: {timeSlicing: {failRequestsGreaterThanOne: 1, resources: [{name: gpu, replicas: 2}]}}",
            _mismatch("number", _SLICES, "bool"),
        ),
        (_resource("{name: 3, replicas: 2}"), _mismatch("number", _SLICES, "string")),
        (_resource("{name: Foo, replicas: 2}"), _BAD_NAME.format("nvidia.com/Foo")),
        (_resource("{name: a/b, replicas: 2}"), _BAD_NAME.format("nvidia.com/a/b")),
        (_resource("{name: '', replicas: 2}"), _BAD_NAME.format("nvidia.com/")),
        (
            _resource(f"{{name: {_LONG_NAME}, replicas: 2}}"),
            f"{_JSON}: fully-qualified resource name must be 63 characters or less: nvidia.com/{_LONG_NAME}",
        ),
        (_resource("{name: gpu, replicas: 2, rename: Foo}"), _BAD_NAME.format("nvidia.com/Foo")),
        (_resource("{name: gpu, replicas: 2, rename: 3}"), _mismatch("number", _SLICES, "string")),
        (
            _resource("{name: gpu, replicas: 2, devices: some}"),
            f"{_JSON}: devices set as 'some' but the only valid string input is 'all'",
        ),
        (
            _resource("{name: gpu, replicas: 2, devices: 0}"),
            f"{_JSON}: devices set as '0' but a count of devices must be > 0",
        ),
        (
            _resource("{name: gpu, replicas: 2, devices: -3}"),
            f"{_JSON}: devices set as '-3' but a count of devices must be > 0",
        ),
        (
            _resource("{name: gpu, replicas: 2, devices: [x]}"),
            f"{_JSON}: unsupported type for device in devices list: x, string",
        ),
        (
            _resource("{name: gpu, replicas: 2, devices: [-1]}"),
            f"{_JSON}: unsupported type for device in devices list: , string",
        ),
        (
            _resource("{name: gpu, replicas: 2, devices: [true]}"),
            f"{_JSON}: unsupported type for device in devices list: , string",
        ),
        (
            _resource("{name: gpu, replicas: 2, devices: [1.5]}"),
            f"{_JSON}: unsupported type for device in devices list: , string",
        ),
        (_resource("{name: gpu, replicas: 2, devices: 1.5}"), f"{_JSON}: unrecognized type for devices spec: 1.5"),
        (_resource("{name: gpu, replicas: 2, devices: true}"), f"{_JSON}: unrecognized type for devices spec: true"),
        (
            _resource("{name: gpu, replicas: 2, devices: {a: 1}}"),
            f'{_JSON}: unrecognized type for devices spec: {{"a":1}}',
        ),
        (
            _resource("{name: gpu, replicas: 2, devices: null}"),
            f"{_JSON}: devices set as '' but the only valid string input is 'all'",
        ),
        (
            _resource("{name: gpu, replicas: 2, devices: [[1]]}"),
            f"{_JSON}: unsupported type for device in devices list: , string",
        ),
        ("resources: 3", _mismatch("number", "Config.resources", "v1.Resources")),
        ("resources: {gpus: 3}", _mismatch("number", "Resources.resources.gpus", "[]v1.Resource")),
        ("resources: {gpus: [3]}", _mismatch("number", "Resources.resources.gpus", "map[string]json.RawMessage")),
        ("resources: {gpus: [{}]}", f"{_JSON}: resources must have a 'pattern' field set"),
        ("resources: {gpus: [{pattern: x}]}", f"{_JSON}: resources must have a 'name' field set"),
        ("resources: {gpus: [{pattern: x, name: Foo}]}", _BAD_NAME.format("nvidia.com/Foo")),
        (
            "resources: {gpus: [{pattern: [x], name: foo}]}",
            _mismatch("array", "Resources.resources.gpus", "v1.ResourcePattern"),
        ),
        ("imex: 3", _mismatch("number", "Config.imex", "v1.Imex")),
        ("imex: {channelIDs: 3}", _mismatch("number", "Imex.imex.channelIDs", "[]int")),
        ("imex: {channelIDs: [x]}", _mismatch("string", "Imex.imex.channelIDs", "int")),
        ("imex: {channelIDs: [1.5]}", _mismatch("number 1.5", "Imex.imex.channelIDs", "int")),
        ("imex: {required: x}", _mismatch("string", "Imex.imex.required", "bool")),
        ("imex: {channelIDs: ['0']}", _mismatch("string", "Imex.imex.channelIDs", "int")),
        ("flags: {gfd: 3}", _mismatch("number", "Flags.flags.CommandLineFlags.gfd", "v1.GFDCommandLineFlags")),
        (
            "flags: {gfd: {oneshot: 3}}",
            _mismatch("number", "GFDCommandLineFlags.flags.CommandLineFlags.gfd.oneshot", "bool"),
        ),
        (
            "flags: {useNodeFeatureAPI: 3}",
            _mismatch("number", "Flags.flags.CommandLineFlags.useNodeFeatureAPI", "bool"),
        ),
        ("Version: v3", "unknown version: v3"),
        ("VERSION: v3", "unknown version: v3"),
        ("version: 017", "unknown version: 15"),
        ("version: 1_000", "unknown version: 1000"),
        ("version: 2001-01-01", "unknown version: 2001-01-01"),
        ("version: 2001-13-45", "unknown version: 2001-13-45"),
        ("version: 0x1F", "unknown version: 31"),
        ("version: 0b11", "unknown version: 3"),
        ("version: on", "unknown version: true"),
        ('version: "\\xff"', "unknown version: ÿ"),
        ("flags: {mpsRoot: 017}", _mismatch("number", "Flags.flags.CommandLineFlags.mpsRoot", "string")),
    ],
    ids=lambda value: None if value.startswith(("unmarshal", "unknown")) else value,
)
def test_wrong_file_is_refused_in_the_words_of_the_original(file: Path, text: str, words: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigError) as error:
        read_config(file)

    assert str(error.value) == f"error parsing config file: {words}"


@pytest.mark.parametrize(
    "text",
    [
        "flags: {migStrategy: null}",
        "flags: {failOnInitError: yes}",
        "",
        "# nothing",
        "null",
        "---\n---\nversion: v2",
        "flags: {plugin: {deviceListStrategy: null}}",
        "flags: {plugin: {deviceListStrategy: []}}",
        "sharing: {mps: null}",
        _resource("{name: gpu, replicas: 2.0}"),
        _resource("{name: gpu, replicas: 2, devices: [null]}"),
        _resource("{name: gpu, replicas: 2, devices: []}"),
        _resource("{name: gpu, replicas: 2, devices: [1:1, 0:1, GPU-b1028956-cfa2-0990-bf4a-5da9abb51763]}"),
        "resources: {mig: [{pattern: x, name: foo}]}",
        "flags: {gfd: {sleepInterval: 5}}",
        "flags: {gfd: {sleepInterval: 60s}}",
        "a: &x 1\nb: *x",
        "a: 1\na: 2",
        "1: 3",
        "a: !!binary aGk=",
        "version: !!str v1",
        "version: v1\nVersion: v3",
        "version: ~",
    ],
)
def test_what_the_original_takes_is_taken(file: Path, text: str) -> None:
    file.write_text(text)

    read_config(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed here"),
        ("a: *x", "yaml: line 1: found undefined alias 'x'"),
        ("{[a]: b}", "yaml: line 1: found unhashable key"),
        ("\x00", "yaml: unacceptable character #x0000: special characters are not allowed"),
        pytest.param("[" * 100_000, "yaml: exceeded max depth", id="deep list"),
        pytest.param("\n".join(f"{' ' * n}a:" for n in range(3_000)), "yaml: exceeded max depth", id="deep map"),
        pytest.param(
            "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 10)}]\n" for n in range(9)),
            "yaml: document contains excessive aliasing",
            id="many aliases",
        ),
        ("version: 0b_", "yaml: invalid literal for int()"),
        (r'{"flags": {"mpsRoot": "\ud800"}}', "yaml: found invalid Unicode character escape code"),
    ],
)
def test_invalid_yaml_is_refused_with_its_line(file: Path, text: str, words: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigError) as error:
        read_config(file)

    expected = f"error parsing config file: unmarshal error: error converting YAML to JSON: {words}"
    assert str(error.value).startswith(expected)
    assert "\n" not in str(error.value)


def test_keys_of_other_types_become_texts(file: Path) -> None:
    file.write_text("flags: {1: a, true: b, migStrategy: single, plugin: {containerDriverRoot: !!str 3}}")

    assert read_config(file).fields == {"mig_strategy": "single", "container_driver_root": "3", "imex_channel_ids": ()}


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"error opening config file: open .*/none.yaml: no such file or directory"):
        read_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"error parsing config file: read error: read .*: is a directory"):
        read_config(tmp_path)


def test_file_gives_all_settings_that_flags_give(file: Path) -> None:
    file.write_text(
        """
version: v1
flags:
  migStrategy: mixed
  failOnInitError: false
  mpsRoot: /a
  nvidiaDriverRoot: /b
  nvidiaDevRoot: /c
  gdrcopyEnabled: off
  gdsEnabled: no
  mofedEnabled: False
  useNodeFeatureAPI: true
  deviceDiscoveryStrategy: nvml
  plugin:
    passDeviceSpecs: yes
    deviceListStrategy: [envvar, cdi-cri]
    deviceIDStrategy: index
    cdiAnnotationPrefix: x/
    nvidiaCTKPath: /d
    containerDriverRoot: /e
imex: {channelIDs: [0], required: true}
"""
    )

    assert read_config(file).fields == {
        "mig_strategy": "mixed",
        "fail_on_init_error": False,
        "mps_root": "/a",
        "nvidia_driver_root": "/b",
        "nvidia_dev_root": "/c",
        "gdrcopy_enabled": False,
        "gds_enabled": False,
        "mofed_enabled": False,
        "use_node_feature_api": True,
        "device_discovery_strategy": "nvml",
        "pass_device_specs": True,
        "device_list_strategies": ("envvar", "cdi-cri"),
        "device_id_strategy": "index",
        "cdi_annotation_prefix": "x/",
        "nvidia_ctk_path": "/d",
        "container_driver_root": "/e",
        "imex_channel_ids": (0,),
        "imex_required": True,
    }


@pytest.mark.parametrize(
    ("text", "rename", "warned"),
    [
        ("resources: [{name: gpu, replicas: 2}]", None, []),
        ("renameByDefault: true, resources: [{name: gpu, replicas: 2}]", "nvidia.com/gpu.shared", []),
        ("resources: [{name: gpu, replicas: 2, rename: a}]", None, ["rename"]),
        (
            "renameByDefault: true, resources: [{name: gpu, replicas: 2, rename: a}]",
            "nvidia.com/gpu.shared",
            ["rename"],
        ),
        (
            "renameByDefault: true, resources: [{name: gpu, replicas: 2, rename: gpu.shared}]",
            "nvidia.com/gpu.shared",
            [],
        ),
        ("resources: [{name: gpu, replicas: 2, rename: a, devices: 1}]", None, ["rename", "devices"]),
    ],
)
def test_names_and_devices_of_shared_resources_do_not_count(
    file: Path, text: str, rename: str | None, warned: list[str]
) -> None:
    file.write_text(f"sharing: {{mps: {{{text}}}}}")

    found = read_config(file)

    assert found.sharing.mps is not None
    assert [resource.rename for resource in found.sharing.mps.resources] == [rename]
    assert [text.partition("'")[2].partition("'")[0] for text in found.warnings] == warned
