"""The file as a whole.

It is read by PyYAML, whose YAML and whose words about a text that is none differ in places from those of Go's reader
(docs/fidelity.md).

Source: api/config/v1/config.go, flags.go and imex.go (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import yaml

from simkubelet.apis.documents import load_json, load_yaml, read_file

from .decoding import ConfigError, Place, boolean, go_json, integer, items, raw_object, string, structure
from .settings import FileSettings, ReplicatedResources, Sharing
from .sharing_section import decode_section, resource_name

__all__ = ["read_config"]

_VERSION: Final = "v1"
_FLAGS: Final = "flags.CommandLineFlags"
_RESOURCES_IGNORED: Final = "Customizing the 'resources' field is not yet supported in the config. Ignoring..."

_Decode: TypeAlias = Callable[[Any, Place], Any]


def _strategies(value: Any, _place: Place) -> tuple[str, ...] | None:
    match value:
        case None:
            return None
        case str():
            return (value,)
        case list() if all(item is None or isinstance(item, str) for item in value):
            return tuple(item or "" for item in value)
    raise ConfigError(f"invalid deviceListStrategy: {go_json(value)}")


_COMMON: Final[Mapping[str, tuple[str, _Decode]]] = MappingProxyType(
    {
        "migStrategy": ("mig_strategy", string),
        "failOnInitError": ("fail_on_init_error", boolean),
        "mpsRoot": ("mps_root", string),
        "nvidiaDriverRoot": ("nvidia_driver_root", string),
        "nvidiaDevRoot": ("nvidia_dev_root", string),
        "gdrcopyEnabled": ("gdrcopy_enabled", boolean),
        "gdsEnabled": ("gds_enabled", boolean),
        "mofedEnabled": ("mofed_enabled", boolean),
        "useNodeFeatureAPI": ("use_node_feature_api", boolean),
        "deviceDiscoveryStrategy": ("device_discovery_strategy", string),
    }
)
_PLUGIN: Final[Mapping[str, tuple[str, _Decode]]] = MappingProxyType(
    {
        "passDeviceSpecs": ("pass_device_specs", boolean),
        "deviceListStrategy": ("device_list_strategies", _strategies),
        "deviceIDStrategy": ("device_id_strategy", string),
        "cdiAnnotationPrefix": ("cdi_annotation_prefix", string),
        "nvidiaCTKPath": ("nvidia_ctk_path", string),
        "containerDriverRoot": ("container_driver_root", string),
    }
)
"""Key of the file → field of the settings, and how it is read."""
_FEATURE_DISCOVERY: Final[Mapping[str, _Decode]] = MappingProxyType(
    {"oneshot": boolean, "noTimestamp": boolean, "outputFile": string, "machineTypeFile": string}
)
"""Key of what the file has for another program → how it is checked."""


def read_config(path: Path) -> FileSettings:
    """Read a file in YAML or JSON; an empty one gives nothing.

    Raises:
        ConfigError: it cannot be opened, is of another version, or has a wrong value.
    """
    try:
        text = read_file(path).decode(errors="replace")
    except IsADirectoryError as error:
        raise ConfigError(f"error parsing config file: read error: read {path}: is a directory") from error
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise ConfigError(f"error opening config file: open {path}: {reason}") from error
    try:
        version, config = _decoded(text)
    except ConfigError as error:
        raise ConfigError(f"error parsing config file: unmarshal error: {error}") from error
    if version not in ("", _VERSION):
        raise ConfigError(f"error parsing config file: unknown version: {version}")
    return config


def _decoded(text: str) -> tuple[str, FileSettings]:
    document = _parsed(text)
    try:
        top = structure(document, ("version", "flags", "resources", "sharing", "imex"), Place("", ""), "v1.Config")
        fields = _flags(top.get("flags")) | _imex(top.get("imex"))
        has_resources = _check_resources(top.get("resources"))
        sharing, warnings = _sharing(top.get("sharing"))
        version = string(_as_text(top.get("version")), Place("Config", "version")) or ""
    except ConfigError as error:
        raise ConfigError(f"error unmarshaling JSON: while decoding JSON: {error}") from error
    if has_resources:
        warnings = (_RESOURCES_IGNORED, *warnings)
    return version, FileSettings(fields, sharing, warnings)


class _Loader(yaml.SafeLoader):
    """A loader to which a date is a text, as to the original, which may be no day of any calendar."""


_Loader.add_constructor(  # type: ignore[type-var]  # the stubs have it as a method of the class above
    "tag:yaml.org,2002:timestamp", _Loader.construct_yaml_str
)


def _parsed(text: str) -> Any:
    """The first document as what JSON can have; None where there is none. Of equal keys the last counts."""
    if "\\ud" not in text.lower():
        # JSON may be indented with tabs, which YAML does not take; halves of characters are not in YAML either.
        with suppress(ValueError):
            return load_json(text)
    try:
        return _as_json(load_yaml(text, _Loader, is_first=True))
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = f"line {mark.line + 1}: {getattr(error, 'problem', None)}" if mark else " ".join(str(error).split())
        raise ConfigError(f"error converting YAML to JSON: yaml: {problem}") from error


def _as_json(value: Any) -> Any:
    match value:
        case dict():
            return {str(key).lower() if isinstance(key, bool) else str(key): _as_json(v) for key, v in value.items()}
        case list():
            return [_as_json(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case str() if any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError("found invalid Unicode character escape code")
        case str() | bool() | int() | float() | None:
            return value
    return str(value)


def _as_text(value: Any) -> Any:
    """A number or a truth value as a text; of the fields that are texts the original takes only the version so."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
    return value


def _flags(value: Any) -> dict[str, Any]:
    names = (*_COMMON, "plugin", "gfd")
    flags = structure(value, names, Place("Config", "flags"), "v1.Flags")
    found = _decode(flags, _COMMON, "Flags", _FLAGS)
    plugin = structure(flags.get("plugin"), _PLUGIN, Place("Flags", f"{_FLAGS}.plugin"), "v1.PluginCommandLineFlags")
    others = structure(flags.get("gfd"), _FEATURE_DISCOVERY, Place("Flags", f"{_FLAGS}.gfd"), "v1.GFDCommandLineFlags")
    for key, other in others.items():
        _FEATURE_DISCOVERY[key](other, Place("GFDCommandLineFlags", f"{_FLAGS}.gfd.{key}"))
    return found | _decode(plugin, _PLUGIN, "PluginCommandLineFlags", f"{_FLAGS}.plugin")


def _decode(
    given: Mapping[str, Any], known: Mapping[str, tuple[str, _Decode]], struct: str, path: str
) -> dict[str, Any]:
    found = {}
    for key, value in given.items():
        if key in known:
            name, decode = known[key]
            if (decoded := decode(value, Place(struct, f"{path}.{key}"))) is not None:
                found[name] = decoded
    return found


def _imex(value: Any) -> dict[str, Any]:
    fields = structure(value, ("channelIDs", "required"), Place("Config", "imex"), "v1.Imex")
    ids = Place("Imex", "imex.channelIDs")
    found: dict[str, Any] = {
        "imex_channel_ids": tuple(integer(item, ids) or 0 for item in items(fields.get("channelIDs"), ids, "[]int"))
    }
    if (is_required := boolean(fields.get("required"), Place("Imex", "imex.required"))) is not None:
        found["imex_required"] = is_required
    return found


def _check_resources(value: Any) -> bool:
    """Whether resources are listed, each with a pattern and a name."""
    fields = structure(value, ("gpus", "mig"), Place("Config", "resources"), "v1.Resources")
    found = False
    for key, resources in fields.items():
        place = Place("Resources", f"resources.{key}")
        for item in items(resources, place, "[]v1.Resource"):
            found = True
            resource = raw_object(item, place)
            for name in ("pattern", "name"):
                if name not in resource:
                    raise ConfigError(f"resources must have a '{name}' field set")
            if not isinstance(resource["pattern"], str | None):
                raise place.mismatch(resource["pattern"], "v1.ResourcePattern")
            resource_name(string(resource["name"], place) or "")
    return found


def _sharing(value: Any) -> tuple[Sharing, tuple[str, ...]]:
    fields = structure(value, ("timeSlicing", "mps"), Place("Config", "sharing"), "v1.Sharing")
    mps = decode_section(fields["mps"], "mps") if fields.get("mps") is not None else None
    slices = decode_section(fields["timeSlicing"], "timeSlicing") if "timeSlicing" in fields else None
    sharing = Sharing(
        time_slicing=ReplicatedResources() if slices is None else slices.resources,
        mps=None if mps is None else mps.resources,
    )
    return sharing, tuple(text for section in (slices, mps) if section is not None for text in section.warnings)
