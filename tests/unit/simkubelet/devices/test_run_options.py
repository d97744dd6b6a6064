"""What plugins' answers add to a container; for CDI devices by minor, settled on v1.29.6 and v1.31.14."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.deviceplugin import CDIDevice, ContainerAllocateResponse, DeviceSpec, Mount
from simkubelet.devices.pod_devices import cdi_annotation, response_data
from simkubelet.model.errors import KubeletPanicError

UID = "0f8fad5b-d9cb-469f-a165-70867728950e"


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


def test_annotation_holds_the_devices_in_their_order():
    assert cdi_annotation(["v.com/gpu=1", "v.com/gpu=0"], UID, "c") == {
        f"cdi.k8s.io/devicemanager_{UID}-c": "v.com/gpu=0,v.com/gpu=1"
    }


@pytest.mark.parametrize(
    ("devices", "container"),
    [
        pytest.param([], "c", id="no device"),
        pytest.param(["v.com/gpu=1"], "c" * 13, id="key of 64 letters"),
        pytest.param(["gpu1"], "c", id="no kind"),
        pytest.param(["/v.com/gpu=1"], "c", id="a path"),
        pytest.param(["v.com/gpu="], "c", id="no name"),
        pytest.param(["v.com/gpu.x=1"], "c", id="full stop in the class"),
        pytest.param(["v.com/gpu=1", "v.com/gpu=/1"], "c", id="name that is not allowed"),
        pytest.param(["1.com/gpu=1"], "c", id="vendor that begins with a digit"),
    ],
)
def test_there_is_no_annotation_for_what_the_kubelet_cannot_write(devices, container):
    assert cdi_annotation(devices, UID, container) == {}


def test_key_of_63_letters_is_the_longest():
    assert cdi_annotation(["v.com/gpu=1"], UID, "c" * 12)


@pytest.mark.parametrize("device", ["v/gpu=0", "v.com/g=0"])
def test_vendor_or_class_of_one_letter_ends_the_kubelet(device):
    with pytest.raises(KubeletPanicError, match="slice bounds out of range"):
        cdi_annotation([device], UID, "c")


@pytest.mark.parametrize(
    ("minor", "gates", "cdi_devices", "is_annotated"),
    [
        pytest.param("1.27", {}, (), False, id="not known"),
        pytest.param("1.28", {}, (), False, id="gate off by default"),
        pytest.param("1.28", {"DevicePluginCDIDevices": True}, ("v.com/gpu=0",), True, id="gate set"),
        pytest.param("1.29", {}, ("v.com/gpu=0",), True, id="gate on by default"),
        pytest.param("1.31", {}, ("v.com/gpu=0",), True, id="last with the annotation"),
        pytest.param("1.32", {}, ("v.com/gpu=0",), False, id="without the annotation"),
    ],
)
async def test_runtime_gets_cdi_devices_as_in_the_minor(
    make_node: Any, minor: str, gates: Any, cdi_devices: Any, is_annotated: bool
):
    node = await make_node(minor, feature_gates=gates)
    plugin = await node.plugin("d0")
    answer = api.ContainerAllocateResponse(cdi_devices=[api.CDIDevice(name="v.com/gpu=0")])
    plugin.allocate_answer = lambda request: api.AllocateResponse(container_responses=[answer])

    name = await node.settled_pod(1)
    pod = node.store.pod_named(name)
    (container,) = pod.containers
    options = node.kubelet.containers_of(pod)[container.name].options

    assert options.cdi_devices == cdi_devices
    key = f"cdi.k8s.io/devicemanager_{pod.uid}-c"
    assert options.annotations == ({key: "v.com/gpu=0"} if is_annotated else {})


async def test_annotation_of_the_plugin_itself_stays(make_node: Any):
    node = await make_node("1.31")
    plugin = await node.plugin("d0")
    own = api.ContainerAllocateResponse(cdi_devices=[api.CDIDevice(name="v.com/gpu=0")])
    plugin.allocate_answer = lambda request: api.AllocateResponse(container_responses=[own])
    name = node.pod(1)
    uid = node.store.pod_named(name).uid
    own.annotations[f"cdi.k8s.io/devicemanager_{uid}-c"] = "mine"

    await node.until(lambda: node.phase(name) == "Running")
    options = node.kubelet.containers_of(node.store.pod_named(name))["c"].options

    assert dict(options.annotations) == {f"cdi.k8s.io/devicemanager_{uid}-c": "mine"}
