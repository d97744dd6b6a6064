from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.deviceplugin import ContainerAllocateResponse
from simkubelet.devices.checkpoint import Checkpoint, CheckpointText, CorruptCheckpointError, checksum, decode
from simkubelet.devices.pod_devices import Allocation, AllocationEntry, DeviceID
from simkubelet.model.pod import PodUID
from simkubelet.model.resources import ResourceName


def encode(checkpoint: Checkpoint) -> str:
    return CheckpointText().render(checkpoint).decode()


# Written by the device manager of kubernetes v1.34.4 for a pod with one device.
REAL = (
    '{"Data":{"PodDeviceEntries":[{"PodUID":"u1","ContainerName":"c","ResourceName":"example.com/stub",'
    '"DeviceIDs":{"-1":["dev-0"]},"AllocResp":"ChkKEEVYQU1QTEVfQ09NX1NUVUISBWRldi0w"}],'
    '"RegisteredDevices":{"example.com/stub":["dev-0"]}},"Checksum":2515888182}'
)


def test_file_of_a_real_kubelet_is_read_and_written_byte_for_byte():
    checkpoint = decode(REAL)

    (entry,) = checkpoint.entries
    assert entry.allocation.devices() == {"dev-0"}
    assert dict(entry.allocation.response.envs) == {"EXAMPLE_COM_STUB": "dev-0"}
    assert encode(checkpoint) == REAL


def test_node_without_pods_has_null_entries():
    text = encode(Checkpoint((), {ResourceName("a.b/c"): ()}))

    assert text.startswith('{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"a.b/c":[]}},"Checksum":')
    assert decode(text) == Checkpoint((), {ResourceName("a.b/c"): ()})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(REAL.replace("2515888182", "1"), "checkpoint is corrupted", id="wrong-checksum"),
        pytest.param(REAL.replace("dev-0", "dev-1"), "checkpoint is corrupted", id="flipped-bytes"),
        pytest.param("{}", "checkpoint is corrupted", id="empty-object"),
        pytest.param("null", "checkpoint is corrupted", id="null"),
        pytest.param("", "unexpected end of JSON input", id="empty-file"),
        pytest.param("hello", "invalid character 'h' looking for beginning of value", id="no-json"),
        pytest.param(
            REAL.replace("2515888182", '"x"'),
            "json: cannot unmarshal string into Go struct field Data.Checksum of type checksum.Checksum",
            id="checksum-of-text",
        ),
        pytest.param('{"Data":[1],"Checksum":1}', "checkpoint is corrupted", id="data-is-a-list"),
        pytest.param(REAL.replace('"-1"', '"x"'), "checkpoint is corrupted", id="node-is-no-number"),
        pytest.param(REAL.replace('"-1"', '"1_0"'), "checkpoint is corrupted", id="node-with-an-underscore"),
        pytest.param(REAL.replace("ChkK", "!"), "checkpoint is corrupted", id="no-base64"),
        pytest.param(REAL.replace('"PodUID":"u1",', ""), "checkpoint is corrupted", id="entry-without-pod"),
        pytest.param('{"Data":{"PodDeviceEntries":[1]}}', "checkpoint is corrupted", id="entry-is-a-number"),
        pytest.param(REAL[:100], "unexpected end of JSON input", id="truncated"),
        pytest.param("[" * 200_000, "checkpoint is corrupted", id="too-deep"),
        pytest.param("1" * 5000, "checkpoint is corrupted", id="too-long-a-number"),
        pytest.param(REAL + "x", "invalid character 'x' after top-level value", id="bytes-after-the-end"),
        pytest.param(
            REAL.replace('{"-1":["dev-0"]}', '["dev-0"]'),
            "json: cannot unmarshal array into Go struct field PodDevicesEntry.Data.PodDeviceEntries.DeviceIDs "
            "of type checkpoint.DevicesPerNUMA",
            id="format-before-1.20",
        ),
    ],
)
def test_unusable_file_is_reported_with_the_kubelet_s_text(text, complaint):
    with pytest.raises(CorruptCheckpointError) as error:
        decode(text)

    assert str(error.value) == complaint


def test_keys_are_read_in_any_case():
    text = REAL.replace('"Data"', '"data"').replace('"PodUID"', '"poduid"').replace('"Checksum"', '"CHECKSUM"')

    assert decode(text) == decode(REAL)


def test_entry_without_a_valid_answer_is_dropped_and_the_rest_kept():
    data = json.loads(REAL)["Data"]
    data["PodDeviceEntries"][0]["AllocResp"] = "/////w=="
    text = json.dumps({"Data": data, "Checksum": checksum(data)})

    assert decode(text) == Checkpoint((), {ResourceName("example.com/stub"): (DeviceID("dev-0"),)})


NAMES = st.text(min_size=1, max_size=12)
ENTRIES = st.builds(
    lambda pod, container, resource, devices, envs: AllocationEntry(
        PodUID(pod), container, ResourceName(resource), Allocation(devices, ContainerAllocateResponse(envs=envs))
    ),
    NAMES,
    NAMES,
    NAMES,
    st.dictionaries(st.integers(-1, 11), st.lists(NAMES, unique=True, min_size=1).map(tuple), min_size=1),
    st.dictionaries(NAMES, NAMES),
)


@given(entries=st.lists(ENTRIES, max_size=4), registered=st.dictionaries(NAMES, st.lists(NAMES).map(tuple)))
def test_what_is_written_is_read_again(entries, registered):
    checkpoint = Checkpoint(tuple(entries), registered)

    assert decode(encode(checkpoint)) == checkpoint


@given(st.data())
def test_file_after_many_changes_is_the_one_of_a_fresh_start(data):
    known = data.draw(st.lists(ENTRIES, min_size=1, max_size=5))
    lists = data.draw(st.lists(st.lists(NAMES, max_size=3).map(tuple), min_size=1, max_size=3))
    text = CheckpointText()

    for _ in range(data.draw(st.integers(1, 6))):
        # Pods come and go in any order; a list is the same object until its plugin sends another.
        entries = data.draw(st.lists(st.sampled_from(range(len(known))), unique=True))
        registered = data.draw(st.dictionaries(st.sampled_from(["a/b", "c/d"]), st.sampled_from(lists)))
        checkpoint = Checkpoint(tuple(known[number] for number in entries), registered)

        assert text.render(checkpoint).decode() == encode(checkpoint)


def test_full_answer_takes_a_few_times_its_size():
    """The text that the checksum is of has up to four characters for each byte, and is never made."""
    response = ContainerAllocateResponse(envs={"A": "\x7f" * (4 << 20)})
    allocation = Allocation({-1: (DeviceID("d"),)}, response)
    checkpoint = Checkpoint((AllocationEntry(PodUID("u"), "c", ResourceName("a.b/c"), allocation),), {})
    text = CheckpointText()
    tracemalloc.start()
    try:
        written = text.render(checkpoint)
        rendering = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        assert decode(written.decode()) == checkpoint
        reading = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert rendering < 6 * (4 << 20)
    assert reading < 12 * (4 << 20)
