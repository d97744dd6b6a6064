"""Cluster roles and bindings sent to a server: what is filled in, what is refused, what a table shows."""

from __future__ import annotations

from typing import Any

import pytest

from ..conftest import Client

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
GROUP = "rbac.authorization.k8s.io"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def role(*rules: dict[str, Any], name: str = "system:reader") -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(*subjects: dict[str, Any], **ref: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": "", **ref},
        "subjects": list(subjects),
    }


async def test_role_may_have_a_colon_in_its_name_and_no_slash(client: Client) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}

    assert (await client.post(ROLES, role(rule))).code == 201
    refused = await client.post(ROLES, role(rule, name="a%b"))
    assert refused.code == 422
    assert "may not contain '%'" in refused.body["message"]


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"apiGroups": [""], "resources": ["pods"]}, "rules[0].verbs: Required value: verbs must contain at least one"),
        ({"verbs": ["get"], "resources": ["pods"]}, "rules[0].apiGroups: Required value: resource rules must supply"),
        ({"verbs": ["get"], "apiGroups": [""]}, "rules[0].resources: Required value: resource rules must supply"),
        ({"verbs": ["get"], "nonResourceURLs": ["/x"], "apiGroups": [""]}, "rules cannot apply to both regular"),
    ],
)
async def test_rule_that_says_too_little_or_too_much_is_refused(
    client: Client, rule: dict[str, Any], complaint: str
) -> None:
    answer = await client.post(ROLES, role({"verbs": [], **rule}))

    assert answer.code == 422
    assert complaint in answer.body["message"]


async def test_groups_of_a_binding_are_filled_in(client: Client) -> None:
    account = {"kind": "ServiceAccount", "name": "a", "namespace": "n"}
    made = (await client.post(BINDINGS, binding({"kind": "User", "name": "u"}, account))).body

    assert made["roleRef"]["apiGroup"] == GROUP
    assert made["subjects"] == [{"apiGroup": GROUP, "kind": "User", "name": "u"}, account]
    table = (await client.get(BINDINGS, headers=TABLE)).body
    assert [column["name"] for column in table["columnDefinitions"]][:3] == ["Name", "Role", "Age"]
    assert table["rows"][0]["cells"][:2] == ["b", "ClusterRole/r"]
    assert table["rows"][0]["cells"][3:] == ["u", "", "n/a"]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (binding(kind="Role"), 'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'),
        (binding(name=""), "roleRef.name: Required value"),
        (binding(apiGroup="x"), f'roleRef.apiGroup: Unsupported value: "x": supported values: "{GROUP}"'),
        (binding({"kind": "ServiceAccount", "name": "a"}), "subjects[0].namespace: Required value"),
        (binding({"kind": "Robot", "name": "a"}), 'subjects[0].kind: Unsupported value: "Robot"'),
        (binding({"kind": "User", "name": ""}), "subjects[0].name: Required value"),
    ],
)
async def test_binding_that_binds_nothing_is_refused(client: Client, wrong: dict[str, Any], complaint: str) -> None:
    answer = await client.post(BINDINGS, wrong)

    assert answer.code == 422
    assert complaint in answer.body["message"]


async def test_binding_keeps_its_role(client: Client) -> None:
    made = (await client.post(BINDINGS, binding())).body

    made["roleRef"]["name"] = "other"
    answer = await client.send("PUT", f"{BINDINGS}/b", made)

    assert answer.code == 422
    assert "cannot change roleRef" in answer.body["message"]
