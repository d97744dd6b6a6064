"""Which versions of groups an API server of a release serves."""

from __future__ import annotations

import pytest

from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.served import Served, runtime_config, runtime_config_faults
from simkubelet.model.errors import InputError
from simkubelet.model.version import version

RESOURCE = "resource.k8s.io"
CLAIMS = kind_named("resourceclaims.resource.k8s.io")


def versions(release: str, *entries: str, group: str = RESOURCE) -> list[str]:
    return Served.by(version(release), runtime_config(entries)).versions(group)


@pytest.mark.parametrize(
    ("release", "by_default", "all_of_it"),
    [
        ("1.31", [], []),
        ("1.32", [], ["v1beta1"]),
        ("1.33", [], ["v1beta2", "v1beta1"]),
        ("1.34", ["v1"], ["v1", "v1beta2", "v1beta1"]),
        ("1.37", ["v1"], ["v1", "v1beta2", "v1beta1"]),
    ],
)
def test_release_has_its_versions(release: str, by_default: list[str], all_of_it: list[str]) -> None:
    assert versions(release) == by_default
    assert versions(release, "api/all=true") == all_of_it


@pytest.mark.parametrize(
    ("entries", "served"),
    [
        (["resource.k8s.io/v1beta1=true"], ["v1", "v1beta1"]),
        (["resource.k8s.io/v1beta1"], ["v1", "v1beta1"]),
        (["api/beta=true"], ["v1", "v1beta2", "v1beta1"]),
        (["api/beta=true", "resource.k8s.io/v1beta2=false"], ["v1", "v1beta1"]),
        (["api/all=false", "resource.k8s.io/v1beta2=1"], ["v1beta2"]),
        (["api/all=true", "api/ga=false"], ["v1beta2", "v1beta1"]),
        (["resource.k8s.io/v1=false"], []),
    ],
)
def test_narrower_settings_win(entries: list[str], served: list[str]) -> None:
    assert versions("1.34", *entries) == served


def test_one_resource_of_a_version_can_be_turned_on() -> None:
    served = Served.by(version("1.34"), runtime_config(["resource.k8s.io/v1beta1/resourceclaims=true"]))

    assert [kind.plural for kind in served.kinds if kind.version == "v1beta1"] == ["resourceclaims"]


def test_other_groups_stay_as_they_are() -> None:
    assert versions("1.34", "resource.k8s.io/v1=false", group="apps") == ["v1"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("api/beta=maybe", "invalid value api/beta=maybe"),
        ("v1", "runtime-config invalid key v1"),
        ("batch/v1=true", "the group version batch/v1 is not simulated; there are apps/v1, "),
        ("resource.k8s.io/v1beta1=yes", 'strconv.ParseBool: parsing "yes": invalid syntax'),
        ("resource.k8s.io/v1beta1/pods=true", "resource.k8s.io/v1beta1 has no pods"),
        ("api/all=false", "invalid key with only api/all=false"),
    ],
)
def test_setting_that_makes_no_sense_is_refused(entry: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        runtime_config([entry])

    assert words in str(refused.value)


def test_each_key_has_its_own_fault() -> None:
    config = {"api/all": False, "batch/v1": True, "resource.k8s.io/v1": True, "resource.k8s.io/v1beta1": True}

    faults = dict(runtime_config_faults(config, version("1.33")))

    assert faults.keys() == {"batch/v1", "resource.k8s.io/v1"}
    assert faults["resource.k8s.io/v1"] == "group version resource.k8s.io/v1 that has not been registered"


def test_release_without_the_version_is_refused() -> None:
    with pytest.raises(InputError, match=r"group version resource.k8s.io/v1 that has not been registered"):
        versions("1.33", "resource.k8s.io/v1=true")


@pytest.mark.parametrize(
    ("release", "of_version", "text"),
    [
        ("1.34", "v1beta1", None),
        ("1.35", "v1beta1", "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"),
        ("1.35", "v1beta2", None),
        ("1.36", "v1beta2", "resource.k8s.io/v1beta2 ResourceClaim is deprecated in v1.36+, unavailable in v1.39+"),
        ("1.37", "v1", None),
    ],
)
def test_old_versions_warn(release: str, of_version: str, text: str | None) -> None:
    served = Served.by(version(release), runtime_config(["api/all=true"]))
    kind = served.kind_at(RESOURCE, of_version, "resourceclaims")

    assert kind is not None
    assert served.deprecation(kind) == ([] if text is None else [text])


def test_storage_version_is_the_releases() -> None:
    of_releases = {
        release: Served.by(version(release)).storage_version(CLAIMS) for release in ("1.32", "1.33", "1.34", "1.35")
    }

    assert of_releases == {"1.32": "v1beta1", "1.33": "v1beta1", "1.34": "v1beta2", "1.35": "v1"}
