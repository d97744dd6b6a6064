"""The configuration file, and the flags that go before it.

Source: Deep-Spark/ix-device-plugin, pkg/config/config.go (v4.4.0); the error texts are the original's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from simkubelet.apis.documents import load_yaml, read_file

from ..errors import FatalError, UsageError

__all__ = ["DEFAULT_RESOURCE", "IluvatarConfig", "load_config"]

DEFAULT_RESOURCE: Final = "iluvatar.com/gpu"
_CLUSTER_FLAGS: Final = ("usevolcano", "reset_gpu")


@dataclass(frozen=True, slots=True)
class IluvatarConfig:
    """What the plugin does.

    Attributes:
        resource_name: What it serves.
        splitboard: Whether each chip of a board is a device of its own.
        replicas: How many devices stand for each; 0: the one itself.
    """

    resource_name: str = DEFAULT_RESOURCE
    splitboard: bool = False
    replicas: int = 0


def load_config(path: Path, flags: Mapping[str, bool]) -> IluvatarConfig:
    """Read the file.

    Args:
        path: Of the file.
        flags: Those that were given, by their names in the file; they go before it.

    Raises:
        FatalError: it cannot be read, or says what cannot be.
        UsageError: it wants what takes an API server.
    """
    document = _mapping(_document(path), path, "the file")
    given = {**_mapping(document.get("flags"), path, "flags"), **flags}
    config = IluvatarConfig(splitboard=_bool(given, "splitboard"), replicas=_replicas(document, path))
    wanted = [flag for flag in _CLUSTER_FLAGS if _bool(given, flag)]
    if config.replicas < 0:
        raise FatalError(f"Check config failed: timeSlicing.replicas must be > 0, got {config.replicas}.")
    if "reset_gpu" in wanted and config.replicas > 0:
        raise FatalError("Check config failed: reset_gpu and timeSlicing.replicas cannot be used together.")
    if wanted:
        raise UsageError(f"{path}: not supported here: {' and '.join(wanted)}; leave out or set to false")
    name = document.get("resourceName") or DEFAULT_RESOURCE
    if not isinstance(name, str):
        raise _unreadable(f"resourceName is no text: {name!r}")
    return replace(config, resource_name=name)


def _document(path: Path) -> object:
    # Imported here: only this plugin and few others read YAML.
    import yaml

    try:
        return load_yaml(read_file(path))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FatalError(f"unable to load config: error opening config file: open {path}: {reason}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise _unreadable(" ".join(str(error).split())) from error


def _replicas(document: Mapping[str, Any], path: Path) -> int:
    sharing = _mapping(document.get("sharing"), path, "sharing")
    replicas = _mapping(sharing.get("timeSlicing"), path, "sharing.timeSlicing").get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise _unreadable(f"sharing.timeSlicing.replicas is no number: {replicas!r}")
    return replicas


def _bool(flags: Mapping[str, Any], name: str) -> bool:
    value = flags.get(name, False)
    if not isinstance(value, bool):
        raise _unreadable(f"flags.{name} is neither true nor false: {value!r}")
    return value


def _mapping(value: object, path: Path, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _unreadable(f"{path}: {name} is no mapping")
    return value


def _unreadable(reason: str) -> FatalError:
    return FatalError(f"unable to load config: error parsing config file: unmarshal error: {reason}")
