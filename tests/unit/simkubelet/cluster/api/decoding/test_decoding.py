"""Reading requests' objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simkubelet.cluster.api.decoding.decoding import Decoder
from simkubelet.cluster.api.decoding.schema import field_faults
from simkubelet.cluster.api.errors import StatusError


def read(
    document: object, kind: str = "Pod", validation: str = "Strict", content_type: str = "application/json"
) -> Any:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Decoder("", "v1", kind, validation, []).read(body, content_type)


FIELD = "Go struct field Container.spec.containers"


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", **fields}]}}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            container(image=3),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string",
        ),
        (
            container(tty="yes"),
            "json: cannot unmarshal string into Go struct field Container.spec.containers.tty of type bool",
        ),
        (
            container(ports=[{"containerPort": "80"}]),
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort "
            "of type int32",
        ),
        ({"spec": []}, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            container(resources={"limits": {"cpu": "much"}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (container(more=1), 'strict decoding error: unknown field "spec.containers[0].more"'),
        (b'{"metadata": {"name": "a", "name": "b"}}', 'strict decoding error: duplicate field "metadata.name"'),
    ],
)
def test_what_cannot_be_a_pod(document: object, words: str) -> None:
    with pytest.raises(StatusError) as raised:
        read(document)
    assert (raised.value.code, str(raised.value)) == (
        400,
        f'Pod in version "v1" cannot be handled as a Pod: {words}',
    )


def test_faults_are_what_strict_decoding_refuses() -> None:
    pod = container(resource={}, env=[{"name": "A", "value": 1}, None], image=None, resources={"limits": {"cpu": "x"}})

    faults = list(field_faults(pod | {"status": None}, "", "v1", "Pod"))

    path = ("spec", "containers", 0)
    assert [(fault.path, fault.value, fault.wanted) for fault in faults] == [
        ((*path, "resource"), {}, ""),
        ((*path, "env", 0, "value"), 1, "string"),
        ((*path, "resources", "limits", "cpu"), "x", ""),
    ]
    assert "resources" in faults[0].known
    assert not faults[0].reason
    assert all(fault.reason for fault in faults[1:])


@pytest.mark.parametrize(
    "document",
    [
        container(resources={"limits": {"cpu": 0.5, "memory": None}}, env=None, ports=[{"containerPort": 80}]),
        container(livenessProbe={"httpGet": {"port": "http"}}) | {"metadata": {"creationTimestamp": None}},
        # Taken with a warning: a field under its old name, a variable given twice, a fraction of a byte.
        {"spec": {"serviceAccount": "a", "containers": [{"name": "c", "env": [{"name": "A"}, {"name": "A"}]}]}},
        container(resources={"requests": {"memory": "100m"}}),
    ],
)
def test_what_is_decoded_has_no_faults(document: Any) -> None:
    read(document)

    assert not list(field_faults(document, "", "v1", "Pod"))


def test_bytes_of_a_secret_are_base64() -> None:
    with pytest.raises(StatusError, match=r"illegal base64 data at input byte 2$"):
        read({"data": {"a": "ab?="}}, "Secret")
    assert read({"data": {"a": "YWI="}}, "Secret") == {"data": {"a": "YWI="}}


def test_other_version_is_refused() -> None:
    with pytest.raises(StatusError) as raised:
        read({"apiVersion": "v2", "kind": "Pod"})
    assert str(raised.value) == (
        'Pod in version "v1" cannot be handled as a Pod: '
        'no kind "Pod" is registered for version "v2" in scheme "pkg/runtime/scheme.go:110"'
    )


def test_null_is_nothing_and_in_a_map_the_empty_value() -> None:
    assert read({"spec": None, "metadata": {"labels": {"a": None}}}) == {"metadata": {"labels": {"a": ""}}}


def test_fields_that_are_always_written_are_filled_in() -> None:
    status = {"status": {"containerStatuses": [{"name": "c"}]}}
    filled = {"name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    assert read(status) == {"status": {"containerStatuses": [filled]}}


def test_configuration_is_taken_as_it_is() -> None:
    decoder = Decoder("", "v1", "Pod", "", [])
    assert decoder.read_configuration(b"spec: {volumes: [{emptyDir: {}}]}", "application/yaml") == {
        "spec": {"volumes": [{"emptyDir": {}}]}
    }


def test_unknown_fields_are_dropped_with_a_warning_by_default() -> None:
    warnings: list[str] = []
    found = Decoder("", "v1", "ConfigMap", "", warnings).read(b'{"data": {"a": "b"}, "more": 1}', "application/json")
    assert (found, warnings) == ({"data": {"a": "b"}}, ['unknown field "more"'])


def test_empty_lists_and_maps_are_left_out_where_go_does() -> None:
    spec = {"containers": [], "initContainers": [], "nodeSelector": {}, "securityContext": {}}
    found = read({"metadata": {"labels": {}}, "spec": spec})
    assert found == {"metadata": {}, "spec": {"containers": [], "securityContext": {}}}
