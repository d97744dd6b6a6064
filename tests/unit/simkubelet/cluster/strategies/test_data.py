"""Config maps, secrets, revisions, roles and bindings: what is refused, in the words of the real API server."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from simkubelet.cluster import Objects, WallTime
from simkubelet.cluster.strategies.priority_classes import PriorityClassStrategy
from simkubelet.cluster.strategies.table import basic_strategies
from simkubelet.model.clock import ManualClock
from simkubelet.model.version import version

NAMED = {"metadata": {"name": "one", "namespace": "default"}}
RBAC = "rbac.authorization.k8s.io"
REFERENCE = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "x"}
HIDDEN = '"<secret contents redacted>"'
KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
NO_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def docker(text: str) -> dict[str, Any]:
    data = {".dockercfg": base64.b64encode(text.encode()).decode()}
    return {"type": "kubernetes.io/dockercfg", "data": data}


def aggregated(*selectors: Mapping[str, Any]) -> dict[str, Any]:
    return {"aggregationRule": {"clusterRoleSelectors": list(selectors)}}


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        pytest.param("configmaps", {"data": {".": ""}}, ["data[.]: Invalid value: \".\": must not be '.'"], id="dot"),
        pytest.param(
            "configmaps",
            {"binaryData": {"..a": ""}},
            ["binaryData[..a]: Invalid value: \"..a\": must not start with '..'"],
            id="dots",
        ),
        pytest.param("secrets", {"data": {"a/b": ""}}, [f'data[a/b]: Invalid value: "a/b": {KEY}'], id="slash"),
        pytest.param("secrets", docker('{"a": 1}'), [], id="docker"),
        pytest.param(
            "secrets",
            docker("AB"),
            [f"data[.dockercfg]: Invalid value: {HIDDEN}: invalid character 'A' looking for beginning of value"],
            id="no JSON",
        ),
        pytest.param(
            "secrets",
            docker("[]"),
            [
                f"data[.dockercfg]: Invalid value: {HIDDEN}: json: cannot unmarshal array into Go value of type "
                "map[string]interface {}"
            ],
            id="JSON of another kind",
        ),
        pytest.param(
            "secrets",
            {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}},
            ["data[ssh-privatekey]: Required value"],
            id="empty key",
        ),
        pytest.param(
            "controllerrevisions.apps", {"revision": 1}, ["data: Required value: data is mandatory"], id="data"
        ),
        pytest.param(
            "controllerrevisions.apps",
            {"revision": 1, "data": []},
            ["data: Required value: data must be a valid JSON object"],
            id="list of data",
        ),
        pytest.param(f"clusterroles.{RBAC}", aggregated({"matchLabels": {"a": "b"}}), [], id="aggregated"),
        pytest.param(
            f"clusterroles.{RBAC}",
            aggregated(),
            [
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if "
                "aggregationRule is non-nil"
            ],
            id="nothing to aggregate",
        ),
        pytest.param(
            f"clusterroles.{RBAC}",
            aggregated({"matchLabels": {"a": "-"}}),
            [
                f'aggregationRule.clusterRoleSelectors[0].matchLabels: Invalid value: "-": {NO_LABEL}',
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
            ],
            id="no label",
        ),
        pytest.param(
            f"clusterrolebindings.{RBAC}",
            {},
            ['roleRef.kind: Unsupported value: "": supported values: "ClusterRole"', "roleRef.name: Required value"],
            id="no role",
        ),
    ],
)
def test_object_is_refused_as_by_the_real_server(kind: str, fields: dict[str, Any], expected: list[str]) -> None:
    strategy, new = basic_strategies()[kind], {**NAMED, **fields}

    strategy.default(new)

    assert list(map(str, strategy.validate(new))) == expected


def test_empty_type_of_a_secret_is_opaque() -> None:
    new = {**NAMED, "type": ""}

    basic_strategies()["secrets"].default(new)

    assert new["type"] == "Opaque"


def test_empty_policy_of_a_priority_class_is_missing() -> None:
    strategy = PriorityClassStrategy(Objects(WallTime(ManualClock())))

    errors = strategy.validate({"metadata": {"name": "x"}, "value": 1, "preemptionPolicy": ""})

    assert list(map(str, errors)) == ["preemptionPolicy: Required value"]


@pytest.mark.parametrize(("release", "text"), [("1.36", "cannot change roleRef"), ("1.37", "field is immutable")])
def test_change_of_a_role_is_shown_with_the_names_of_go(release: str, text: str) -> None:
    strategy = basic_strategies(version(release))[f"clusterrolebindings.{RBAC}"]
    old, new = ({**NAMED, "roleRef": {**REFERENCE, "name": name}} for name in ("x", "y"))

    (error,) = strategy.validate_update(new, old)

    shown = f'{{"APIGroup":"{RBAC}","Kind":"ClusterRole","Name":"y"}}'
    assert str(error) == f"roleRef: Invalid value: {shown}: {text}"


@pytest.mark.parametrize(("release", "text"), [("1.36", ": verbs must contain at least one value"), ("1.37", "")])
def test_rule_without_verbs_is_refused_in_the_words_of_the_minor(release: str, text: str) -> None:
    strategy = basic_strategies(version(release))[f"clusterroles.{RBAC}"]

    (error,) = strategy.validate({**NAMED, "rules": [{"apiGroups": [""], "resources": ["pods"]}]})

    assert str(error) == f"rules[0].verbs: Required value{text}"


@pytest.mark.parametrize(("release", "expected"), [("1.30", []), ("1.31", ["data must be a valid JSON object"])])
def test_data_of_a_revision_are_an_object_since_1_31(release: str, expected: list[str]) -> None:
    strategy = basic_strategies(version(release))["controllerrevisions.apps"]

    assert [error.detail for error in strategy.validate({**NAMED, "data": []})] == expected


@pytest.mark.parametrize(("release", "expected"), [("1.30", ["data is mandatory"]), ("1.31", [])])
def test_update_without_data_of_a_revision_is_refused_for_that_until_1_30(release: str, expected: list[str]) -> None:
    strategy = basic_strategies(version(release))["controllerrevisions.apps"]

    errors = strategy.validate_update(dict(NAMED), {**NAMED, "data": {}})

    assert [error.detail for error in errors] == [*expected, "field is immutable"]
