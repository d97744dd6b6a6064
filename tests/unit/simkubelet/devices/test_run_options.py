from __future__ import annotations

import json

from simkubelet.apis.deviceplugin import CDIDevice, ContainerAllocateResponse, DeviceSpec, Mount
from simkubelet.devices.run_options import response_data


def test_an_answer_as_plain_data_has_every_field_of_the_message() -> None:
    response = ContainerAllocateResponse(
        envs={"A": "1"},
        mounts=[Mount(container_path="/in", host_path="/out", read_only=True)],
        devices=[DeviceSpec(container_path="/dev/in", host_path="/dev/out", permissions="rwm")],
        annotations={"a/b": "c"},
        cdi_devices=[CDIDevice(name="a.b/c=d")],
    )

    data = response_data(response)

    assert data == {
        "envs": {"A": "1"},
        "mounts": [{"container_path": "/in", "host_path": "/out", "read_only": True}],
        "devices": [{"container_path": "/dev/in", "host_path": "/dev/out", "permissions": "rwm"}],
        "annotations": {"a/b": "c"},
        "cdi_devices": ["a.b/c=d"],
    }
    assert data.keys() == {field.name for field in ContainerAllocateResponse.DESCRIPTOR.fields}
    assert json.loads(json.dumps(data)) == data


def test_an_answer_without_anything_is_empty() -> None:
    assert response_data(ContainerAllocateResponse()) == {}
