"""Which kinds one API server serves: those of its release, of the versions that are on.

Versions that are not beta are on by default; ``--runtime-config`` says else. Of resource.k8s.io no version is on by
default before 1.34; its alphas are not simulated.

Source: pkg/controlplane/instance.go, ``DefaultAPIResourceConfigSource``, pkg/registry/resource/rest/
storage_resource.go, pkg/apis/resource/install/install.go (kubernetes v1.32.13, v1.33.13, v1.34.4, v1.35.4, v1.36.3,
v1.37.2); apiserver/pkg/server/resourceconfig/helpers.go, ``MergeAPIResourceConfigs``,
pkg/server/options/api_enablement.go (v0.34.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from ....golang.text import parse_bool
from ....model.errors import InputError
from ....model.version import Difference, Version
from .kinds import KINDS, Kind, kind_at

__all__ = ["Served", "runtime_config", "runtime_config_faults"]

_RESOURCE: Final = "resource.k8s.io"
_POOL_NAME: Final = "spec.pool.name"
_INSTALLED: Final = "pkg/apis/resource/install/install.go (kubernetes v1.31.14, v1.32.13, v1.33.13, v1.34.4)"
_HAS_V1: Final = Difference(
    "the API server has `resource.k8s.io/v1`, and serves it by default", {"1.26": False, "1.34": True}, _INSTALLED
)
_HAS_V1BETA2: Final = Difference(
    "the API server has `resource.k8s.io/v1beta2`, and serves it where `--runtime-config` says so",
    {"1.26": False, "1.33": True},
    _INSTALLED,
)
_HAS_V1BETA1: Final = Difference(
    "the API server has `resource.k8s.io/v1beta1`, and serves it where `--runtime-config` says so",
    {"1.26": False, "1.32": True},
    _INSTALLED,
)
_HAS_TAINT_RULES: Final = Difference(
    "the API server has DeviceTaintRules in `resource.k8s.io/v1`",
    {"1.26": False, "1.37": True},
    "pkg/registry/resource/rest/storage_resource.go, ``v1Storage`` (kubernetes v1.36.3, v1.37.2)",
)
_SELECTS_POOLS: Final = Difference(
    "field selectors of ResourceSlices may name `spec.pool.name`",
    {"1.26": False, "1.37": True},
    "pkg/apis/resource/{v1,v1beta1,v1beta2}/conversion.go, ``addConversionFuncs``; pkg/registry/resource/resourceslice/"
    "strategy.go, ``toSelectableFields`` (kubernetes v1.36.3, v1.37.0)",
)
_STORED_AS: Final = Difference(
    "the version of `resource.k8s.io` in which objects are stored, as `storageVersionHash` tells",
    {"1.26": "", "1.32": "v1beta1", "1.34": "v1beta2", "1.35": "v1"},
    _INSTALLED,
)
_LIFE_CYCLE: Final = "api/resource/{}/zz_generated.prerelease-lifecycle.go (v0.32.13 to v0.37.2)"
_V1BETA1_IS_OLD: Final = Difference(
    "answers about `resource.k8s.io/v1beta1` warn that it is deprecated",
    {"1.26": False, "1.35": True},
    _LIFE_CYCLE.format("v1beta1"),
)
_V1BETA2_IS_OLD: Final = Difference(
    "answers about `resource.k8s.io/v1beta2` warn that it is deprecated",
    {"1.26": False, "1.36": True},
    _LIFE_CYCLE.format("v1beta2"),
)
_HAS: Final = {"v1": _HAS_V1, "v1beta2": _HAS_V1BETA2, "v1beta1": _HAS_V1BETA1}
_LIFE: Final = {
    "v1beta1": (_V1BETA1_IS_OLD, "is deprecated in v1.35+, unavailable in v1.38+"),
    "v1beta2": (_V1BETA2_IS_OLD, "is deprecated in v1.36+, unavailable in v1.39+"),
}
_VERSION: Final = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STAGES: Final = {"": "api/ga", "beta": "api/beta", "alpha": "api/alpha"}
_ALL: Final = "api/all"
_NOTHING_ELSE: Final = f"invalid key with only {_ALL}=false"
_WIDE: Final = (_ALL, *_STAGES.values())


def runtime_config(entries: Iterable[str]) -> dict[str, bool]:
    """Read the value of ``--runtime-config``: ``KEY=VALUE`` each, as ``resource.k8s.io/v1beta1=true``.

    Raises:
        InputError: a real API server would not start with it, or no such group and version is simulated.
    """
    found: dict[str, bool] = {}
    for entry in entries:
        key, _, value = entry.strip().partition("=")
        found[key] = _checked(key, value.strip())
    if found == {_ALL: False}:
        raise InputError(_NOTHING_ELSE)
    return found


def runtime_config_faults(config: Mapping[str, bool], release: Version) -> Iterator[tuple[str, str]]:
    """Each key with which an API server of a release would not start, and its error; see `runtime_config`."""
    for key, is_on in config.items():
        try:
            _checked(key, str(is_on).lower())
            _check_registered(key, release)
        except InputError as error:
            yield key, str(error)
    if config == {_ALL: False}:
        yield _ALL, _NOTHING_ELSE


def _check_registered(key: str, release: Version) -> None:
    named = [kind for kind in KINDS if key.startswith(f"{kind.api_version}/") or key == kind.api_version]
    if named and not _exists(named[0], release):
        raise InputError(f"group version {named[0].api_version} that has not been registered")


def _checked(key: str, value: str) -> bool:
    if key in _WIDE:
        if value not in ("true", "false"):
            raise InputError(f"invalid value {key}={value}")
        return value == "true"
    parts = key.split("/")
    if len(parts) not in (2, 3):
        raise InputError(f"runtime-config invalid key {key}")
    versions = sorted({kind.api_version for kind in KINDS if kind.group})
    if "/".join(parts[:2]) not in versions:
        raise InputError(f"the group version {'/'.join(parts[:2])} is not simulated; there are {', '.join(versions)}")
    if parts[2:] and kind_at(*parts) is None:
        raise InputError(f"{parts[0]}/{parts[1]} has no {parts[2]}")
    try:
        return parse_bool(value) if value else True
    except ValueError as error:
        raise InputError(f"invalid value of {key}: {value}, err: {error}") from None


class Served:
    """What an API server of a release serves; two of the same settings are the same object.

    Attributes:
        release: of the server.
        kinds: in the order of discovery.
        groups: their names, without core's.
    """

    def __init__(self, release: Version, chosen: tuple[tuple[str, bool], ...]) -> None:
        config = dict(chosen)
        self.release = release
        kinds = (kind for kind in KINDS if _exists(kind, release) and _is_on(kind, config))
        self.kinds = tuple(_as_of(kind, release) for kind in kinds)
        self.groups = sorted({kind.group for kind in self.kinds if kind.group})
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in self.kinds}

    @staticmethod
    def by(release: Version, config: Mapping[str, bool] | None = None) -> Served:
        """What is served with a `runtime_config`.

        Raises:
            InputError: the release does not have a version that the configuration names.
        """
        for key in config or {}:
            _check_registered(key, release)
        return _served(release, tuple(sorted((config or {}).items())))

    def kind_at(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind that is served at a path."""
        return self._by_path.get((group, version, plural))

    def knows(self, api_version: str, kind: str) -> bool:
        """Whether the release has a kind, served or not."""
        found = (one for one in KINDS if (one.api_version, one.kind) == (api_version, kind))
        return any(_exists(one, self.release) for one in found)

    def versions(self, group: str) -> list[str]:
        """The versions of a group; the preferred one comes first."""
        return sorted({kind.version for kind in self.kinds if kind.group == group}, key=_rank)

    def storage_version(self, kind: Kind) -> str:
        """The version in which a real server stores objects of a kind."""
        return _STORED_AS.at(self.release) if kind.group == _RESOURCE else kind.version

    def deprecation(self, kind: Kind) -> list[str]:
        """The warning with which all answers about a kind come, if there is one.

        Source: apiserver/pkg/endpoints/deprecation/deprecation.go, ``WarningMessage`` (v0.34.4).
        """
        if kind.group != _RESOURCE or kind.version not in _LIFE:
            return []
        is_old, text = _LIFE[kind.version]
        return [f"{kind.api_version} {kind.kind} {text}"] if is_old.at(self.release) else []


@cache
def _served(release: Version, chosen: tuple[tuple[str, bool], ...]) -> Served:
    return Served(release, chosen)


def _exists(kind: Kind, release: Version) -> bool:
    if kind.kind == "DeviceTaintRule":
        return _HAS_TAINT_RULES.at(release)
    return kind.group != _RESOURCE or _HAS[kind.version].at(release)


def _as_of(kind: Kind, release: Version) -> Kind:
    """A kind with the selectable fields of a release."""
    if kind.selectable is None or _POOL_NAME not in kind.selectable or _SELECTS_POOLS.at(release):
        return kind
    return replace(kind, selectable={name: get for name, get in kind.selectable.items() if name != _POOL_NAME})


def _parts(version: str) -> tuple[int, str, int]:
    """The number of a version, its stage, and the stage's number."""
    found = _VERSION.fullmatch(version)
    assert found is not None  # noqa: S101  # the versions of `KINDS`
    return int(found[1]), found[2] or "", int(found[3] or 0)


def _rank(version: str) -> tuple[bool, bool, int, int]:
    major, stage, minor = _parts(version)
    return stage == "alpha", stage == "beta", -major, -minor


def _is_on(kind: Kind, config: Mapping[str, bool]) -> bool:
    stage = _parts(kind.version)[1]
    path = kind.api_version, f"{kind.api_version}/{kind.plural}"
    is_on = not stage
    for key in (_ALL, _STAGES[stage], *path):
        is_on = config.get(key, is_on)
    return is_on
