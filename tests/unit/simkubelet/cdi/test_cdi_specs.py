from __future__ import annotations

import json
from typing import Any

import pytest

from simkubelet.cdi import CdiNameError, SpecError, devices_in_annotations, parse_qualified_name, parse_spec


def spec(device: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A spec with one device that is good unless a field makes it otherwise; a field of None is left out."""
    one = {"name": "gpu0", "containerEdits": {"env": ["A=1"]}, **(device or {})}
    whole = {"cdiVersion": "0.3.0", "kind": "vendor.com/gpu", "devices": [one], **fields}
    return {name: value for name, value in whole.items() if value is not None}


def edits(**fields: Any) -> dict[str, Any]:
    return {"containerEdits": fields}


def test_every_field_is_read_from_yaml():
    read = parse_spec("""
        cdiVersion: "0.7.0"
        kind: vendor.com/gpu
        annotations: {a: b}
        containerEdits:
          additionalGids: [5]
          intelRdt: {closID: c, l3CacheSchema: l, memBwSchema: m, enableCMT: true}
        devices:
        - name: 0
          annotations: {c: d}
          containerEdits:
            env: [A=1]
            deviceNodes:
            - {path: /dev/a, hostPath: /dev/b, type: c, major: 1, minor: 2, fileMode: 6, permissions: r, uid: 3, gid: 4}
            mounts: [{hostPath: /h, containerPath: /c, type: none, options: [ro]}]
            hooks: [{hookName: poststop, path: /bin/h, args: [h, x], env: [B=2], timeout: 3}]
    """)

    device = read.devices[0]
    assert (read.cdi_version, read.kind, device.name) == ("0.7.0", "vendor.com/gpu", "0")
    assert read.container_edits.intel_rdt.clos_id == "c"
    assert read.container_edits.additional_gids == (5,)
    assert device.container_edits.device_nodes[0].source == "/dev/b"
    assert device.container_edits.mounts[0].options == ("ro",)
    assert device.container_edits.hooks[0].args == ("h", "x")


def test_json_may_have_tabs_and_names_in_any_case():
    text = json.dumps(spec(edits(devicenodes=[{"PATH": "/dev/a", "HostPath": None}])), indent="\t")

    assert parse_spec(text).devices[0].container_edits.device_nodes[0].source == "/dev/a"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(spec(cdiVersion="0.3"), 'invalid version "0.3"', id="unknown-version"),
        pytest.param(spec(cdiVersion=None), 'invalid version ""', id="no-version"),
        pytest.param(spec(kind="vendor.com"), "invalid vendor. empty name", id="kind-without-class"),
        pytest.param(
            spec(kind="1vendor/gpu"), 'invalid vendor. "1vendor", should start with letter', id="vendor-digit"
        ),
        pytest.param(
            spec(kind="vendor/g!u"), "invalid class. invalid character '!' in name \"g!u\"", id="class-character"
        ),
        pytest.param(
            spec(kind="vendor/gpu-"), 'invalid class. "gpu-", should end with a letter or digit', id="class-end"
        ),
        pytest.param(spec(devices=None), "invalid spec, no devices", id="no-devices"),
        pytest.param(
            spec(devices=[spec()["devices"][0]] * 2), 'invalid spec, multiple device "gpu0"', id="device-stands-twice"
        ),
        pytest.param(spec({"name": ""}), "invalid (empty) device name", id="no-device-name"),
        pytest.param(spec({"name": "a/b"}), "invalid character '/' in device name \"a/b\"", id="device-character"),
        pytest.param(
            spec({"name": "-a"}), 'invalid class "-a", should start with a letter or digit', id="device-start"
        ),
        pytest.param(spec({"name": "a:"}), 'invalid name "a:", should end with a letter or digit', id="device-end"),
        pytest.param(spec(edits()), "invalid device, empty device edits", id="device-without-edits"),
        pytest.param(spec(edits(env=["=x"])), 'invalid environment variable "=x"', id="variable-without-name"),
        pytest.param(spec(edits(deviceNodes=[{}])), "invalid (empty) device path", id="device-node-without-path"),
        pytest.param(
            spec(edits(deviceNodes=[{"path": "/d", "type": "x"}])),
            'device "/d": invalid type "x"',
            id="device-node-type",
        ),
        pytest.param(
            spec(edits(deviceNodes=[{"path": "/d", "permissions": "rx"}])), 'invalid permissions "rx"', id="permissions"
        ),
        pytest.param(spec(edits(hooks=[{"hookName": "x"}])), 'invalid hook name "x"', id="hook-name"),
        pytest.param(spec(edits(hooks=[{"hookName": "poststop"}])), "with empty path", id="hook-without-path"),
        pytest.param(spec(edits(mounts=[{"containerPath": "/c"}])), "empty host path", id="mount-without-source"),
        pytest.param(spec(edits(mounts=[{"hostPath": "/h"}])), "empty container path", id="mount-without-target"),
        pytest.param(
            spec(edits(intelRdt={"closID": "a/b"}), cdiVersion="0.7.0"), "invalid ClosID", id="class-of-service"
        ),
    ],
)
def test_spec_that_breaks_a_rule_is_refused_with_the_librarys_words(fields, words):
    with pytest.raises(SpecError, match=r"^invalid CDI Spec: ") as raised:
        parse_spec(json.dumps(fields))

    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("needed", "fields"),
    [
        pytest.param(
            "0.4.0", spec(edits(mounts=[{"hostPath": "/h", "containerPath": "/c", "type": "none"}])), id="mount-type"
        ),
        pytest.param("0.5.0", spec({"name": "0"}), id="device-name-begins-with-a-digit"),
        pytest.param("0.5.0", spec(edits(deviceNodes=[{"path": "/d", "hostPath": "/h"}])), id="host-path"),
        pytest.param("0.6.0", spec(kind="vendor.com/g.pu"), id="dot-in-the-class"),
        pytest.param("0.6.0", spec({"annotations": {"a": "b"}}), id="annotations-of-a-device"),
        pytest.param("0.7.0", spec(containerEdits={"additionalGids": [1]}), id="groups"),
        pytest.param("0.7.0", spec(edits(intelRdt={})), id="rdt"),
    ],
)
def test_field_needs_the_version_that_brought_it(needed, fields):
    with pytest.raises(SpecError, match=f"the spec version must be at least v{needed}"):
        parse_spec(json.dumps(fields))

    assert parse_spec(json.dumps(fields | {"cdiVersion": needed}))


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "v1.0.0"])
def test_released_versions_are_taken(version):
    assert parse_spec(json.dumps(spec(cdiVersion=version))).cdi_version == version


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "no Spec data", id="empty"),
        pytest.param("{", "failed to unmarshal CDI Spec", id="no-yaml"),
        pytest.param("[]", "failed to unmarshal CDI Spec: spec: ", id="list"),
        pytest.param(json.dumps(spec(unknown=1)), "unknown: unknown field", id="unknown-field"),
        pytest.param(json.dumps(spec(devices={})), "devices: Input should be", id="wrong-type"),
        pytest.param(json.dumps(spec(cdi_version="0.3.0")), "cdi_version: unknown field", id="python-name"),
        pytest.param(json.dumps(spec(edits(additionalGids=[-1]))), "number -1 into a uint32", id="negative-group"),
        pytest.param('{"kind": "a", "kind": "b"}', "duplicate key 'kind'", id="json-key-twice"),
        pytest.param("kind: a\nkind: b", "duplicate key 'kind'", id="yaml-key-twice"),
    ],
)
def test_text_that_is_not_a_spec_is_refused(text, words):
    with pytest.raises(SpecError) as raised:
        parse_spec(text)

    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_qualified_name_has_three_parts():
    assert parse_qualified_name("vendor.com/gpu=0:1") == ("vendor.com", "gpu", "0:1")


@pytest.mark.parametrize(
    "name", ["gpu0", "vendor.com=0", "vendor.com/gpu", "vendor.com/gpu=", "/dev/x=y", "v/c=a/b", ""]
)
def test_other_text_is_no_qualified_name(name):
    with pytest.raises(CdiNameError):
        parse_qualified_name(name)


def test_devices_are_read_from_the_annotations_of_cdi_alone():
    annotations = {"cdi.k8s.io/b": "v/c=2,v/c=3", "cdi.k8s.io/a": "v/c=1", "other": "none"}

    assert devices_in_annotations(annotations) == ("v/c=1", "v/c=2", "v/c=3")


def test_annotation_with_another_name_is_refused():
    with pytest.raises(CdiNameError, match=r'^invalid CDI device name "gpu0"$'):
        devices_in_annotations({"cdi.k8s.io/a": "v/c=1,gpu0"})


@pytest.mark.parametrize(
    "text",
    ["[" * 3_000, "- " * 3_000 + "x", '{"a":' * 900 + "1" + "}" * 900, "&a [*a]", "at: 2020-13-45", "1" * 5_000],
    ids=["deep", "deep block", "deep objects", "itself", "date", "number"],
)
def test_hostile_spec_is_refused(text):
    with pytest.raises(SpecError, match=r"^failed to unmarshal CDI Spec: "):
        parse_spec(text)
