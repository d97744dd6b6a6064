"""The checkpoint of the DRA manager: the kubelet's text, byte by byte, and its errors about other files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.documents import MOST_VALUES
from simkubelet.dra.checkpoint import BadCheckpointError, ClaimsFile, ClaimsNotWrittenError, decode, encode
from simkubelet.dra.claim_info import ClaimInfo, PreparedDevice
from simkubelet.golang.text import json_string
from simkubelet.model.pod import PodUID
from simkubelet.model.version import version
from tests.support.dra_node import DRIVER, DraWorld, pod_object

V1_34, V1_35 = version("1.34"), version("1.35")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
lists = st.none() | st.lists(texts, max_size=2).map(tuple)
devices = st.builds(PreparedDevice, texts, texts, lists, lists, st.none() | texts)
infos = st.builds(
    ClaimInfo,
    texts,
    texts,
    texts,
    st.lists(texts.map(PodUID), max_size=2, unique=True).map(dict.fromkeys),
    st.dictionaries(texts, st.none() | st.lists(devices, max_size=2).map(tuple), max_size=2),
)


def text_of(data: str) -> str:
    """A file with this data and its checksum."""
    return f'{{"Data":{json_string(data)},"Checksum":{crc32(data.encode())}}}'


def state_of(info: ClaimInfo) -> tuple[object, ...]:
    """All that a checkpoint keeps, whatever the order of maps."""
    return info.uid, info.name, info.namespace, set(info.pods), info.drivers


@given(st.lists(infos, max_size=3))
def test_what_was_written_is_read(written: list[ClaimInfo]) -> None:
    read = decode(encode(written, V1_35))

    assert [state_of(info) for info in read] == [state_of(info) for info in written]
    assert encode(read, V1_35) == encode(written, V1_35)


@given(st.lists(infos, min_size=1, max_size=3), st.sampled_from(["ClaimUID", "Devices", "PoolName", "RequestNames"]))
def test_names_of_fields_may_be_in_any_case(written: list[ClaimInfo], field: str) -> None:
    data = json.loads(encode(written, V1_35))["Data"]

    read = decode(text_of(data.replace(f'"{field}":', f'"{field.swapcase()}":')))

    assert [state_of(info) for info in read] == [state_of(info) for info in written]


@pytest.mark.parametrize("value", ["5", "{}", "[1]", '"x"'], ids=["number", "object", "list", "text"])
def test_list_of_texts_that_is_none_is_refused(value: str) -> None:
    claim = '{"ClaimUID":"u","ClaimName":"n","Namespace":"s","PodUIDs":{},"DriverState":{"d":{"Devices":[%s]}}}'
    device = f'{{"PoolName":"p","DeviceName":"d","RequestNames":{value},"CDIDeviceIDs":null}}'

    with pytest.raises(BadCheckpointError, match=r"GetEntries\(\) on checkpoint: json: cannot unmarshal"):
        decode(text_of('{"kind":"","apiVersion":"","ClaimInfoStateList":[%s]}' % (claim % device)))


@given(st.lists(infos, max_size=3, unique_by=lambda info: (info.namespace, info.name)), st.data())
def test_file_has_what_has_changed(written: list[ClaimInfo], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = ClaimsFile(Path(folder), V1_35)
        file.save(written)
        for info in written:
            change = data.draw(st.sampled_from(["nothing", "pod", "no pods", "devices", "uid"]))
            if change == "pod":
                info.pods[PodUID("one more")] = None
            elif change == "no pods":
                info.pods.clear()
            elif change == "devices":
                info.add_devices("d", [PreparedDevice("p", "x")])
            elif change == "uid":
                info.uid += "x"
        written[:] = data.draw(st.permutations(written))
        file.save(written)

        assert (Path(folder) / "dra_manager_state").read_text() == encode(written, V1_35)


def test_first_start_writes_null(tmp_path: Path) -> None:
    assert ClaimsFile(tmp_path, V1_34).load() == []

    assert (tmp_path / "dra_manager_state").read_text() == (
        '{"Data":"{\\"kind\\":\\"DRACheckpoint\\",\\"apiVersion\\":\\"checkpoint.dra.kubelet.k8s.io/v1\\",'
        '\\"ClaimInfoStateList\\":null}","Checksum":4010664294}'
    )


def test_share_ids_are_written_from_1_35_on() -> None:
    shared = ClaimInfo("u", "c", "n", drivers={"d": (PreparedDevice("p", "x", share_id="s"), PreparedDevice("p", "y"))})

    assert '\\"DeviceName\\":\\"x\\",\\"RequestNames\\":null' in encode([shared], V1_34)
    assert '\\"DeviceName\\":\\"x\\",\\"ShareID\\":\\"s\\",' in encode([shared], V1_35)
    assert '\\"DeviceName\\":\\"y\\",\\"ShareID\\":null,' in encode([shared], V1_35)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{}", id="empty object"),
        pytest.param("null", id="null"),
        pytest.param(text_of("{}"), id="no list"),
        pytest.param(text_of("null"), id="data null"),
    ],
)
def test_file_that_leaves_out_everything_is_empty(text: str) -> None:
    assert decode(text) == []


NOT_READ = "GetOrCreate() on checkpoint state: failed to get checkpoint dra_manager_state"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("", f"{NOT_READ}: unexpected end of JSON input", id="empty"),
        pytest.param("gibberish", f"{NOT_READ}: invalid character 'g' looking for beginning of value", id="no JSON"),
        pytest.param('{"Data":"{}","Checksum":1}', f"{NOT_READ}: checkpoint is corrupted", id="checksum"),
        pytest.param('{"Checksum":1}', f"{NOT_READ}: checkpoint is corrupted", id="checksum of no data"),
        pytest.param(
            "[]", f"{NOT_READ}: json: cannot unmarshal array into Go value of type state.Checkpoint", id="a list"
        ),
        pytest.param(
            '{"Data":{}}',
            f"{NOT_READ}: json: cannot unmarshal object into Go struct field Checkpoint.Data of type string",
            id="data of another type",
        ),
        pytest.param(
            '{"Checksum":"1"}',
            f"{NOT_READ}: json: cannot unmarshal string into Go struct field Checkpoint.Checksum of type uint32",
            id="checksum of another type",
        ),
        pytest.param(
            '{"Checksum":-1}',
            f"{NOT_READ}: json: cannot unmarshal number -1 into Go struct field Checkpoint.Checksum of type uint32",
            id="checksum below 0",
        ),
        pytest.param(
            text_of("xyz"),
            "GetEntries() on checkpoint: invalid character 'x' looking for beginning of value",
            id="data no JSON",
        ),
    ],
)
async def test_kubelet_does_not_start_on_a_bad_file(make_world: Callable[[], DraWorld], text: str, error: str) -> None:
    world = make_world()
    await world.manager("write_checkpoint", text=text)

    answer = await world.manager("start")

    assert answer["error"] == f"create ResourceClaim cache: {error}"
    assert not world.node.is_running


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(text_of(f"[{'{},' * 200_001}null]"), "more than 200000 values", id="values"),
        pytest.param(" " * (10 << 20) + "{}", "it is larger than 10 mib", id="bytes"),
    ],
)
def test_large_file_stops_the_start_unread(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "dra_manager_state").write_text(text)

    with pytest.raises(BadCheckpointError, match=error):
        ClaimsFile(tmp_path, V1_34).load()


def test_folder_in_the_checkpoints_place_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "dra_manager_state").mkdir()

    with pytest.raises(BadCheckpointError, match="is a directory"):
        ClaimsFile(tmp_path, V1_34).load()
    with pytest.raises(ClaimsNotWrittenError, match="could not save checkpoint dra_manager_state: rename"):
        ClaimsFile(tmp_path, V1_34).save([])


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        pytest.param(["x"] * 200_001, "it would have more than 200000 values", id="values"),
        pytest.param(["x" * (10 << 20)], "it would be larger than 10 MiB", id="bytes"),
    ],
)
def test_claims_that_could_not_be_read_are_not_written(tmp_path: Path, ids: list[str], error: str) -> None:
    file = ClaimsFile(tmp_path, V1_34)
    small = ClaimInfo("u", "c", "n", drivers={"d": (PreparedDevice("p", "x"),)})
    file.save([small])

    with pytest.raises(ClaimsNotWrittenError, match=f"^could not save checkpoint dra_manager_state: {error}$"):
        file.save([small, ClaimInfo("u", "large", "n", drivers={"d": (PreparedDevice("p", "x", cdi_ids=ids),)})])

    assert len(ClaimsFile(tmp_path, V1_34).load()) == 1


@pytest.mark.parametrize(
    ("there", "added"),
    [
        pytest.param(["e.com/x=y"] * 170_000, ["e.com/x=y"] * 40_000, id="values"),
        pytest.param(["y" * (7 << 20)], ["y" * (3 << 20)], id="bytes"),
    ],
)
async def test_answer_without_room_fails_its_pod_only(world: DraWorld, there: list[str], added: list[str]) -> None:
    for pod in ("p1", "p2"):
        await world.put_claim(f"c{pod}", pod)
    large = PreparedDevice("pool", "dev-0", ("req",), there)
    world.node.manager.cache.add(ClaimInfo("old", "old", "default", drivers={DRIVER: (large,)}))
    await world.drive("set", rpc="prepare", devices={"cp1": [{"pool": "p", "device": "d", "cdi": added}]})

    answers = [await world.manager("prepare", pod=pod_object(pod, f"c{pod}")) for pod in ("p1", "p1", "p2")]

    error = answers[0]["error"]
    assert "could not save checkpoint dra_manager_state: it would " in error
    assert [answer.get("error") for answer in answers] == [error, error, None]
    assert (await world.manager("unprepare", pod=pod_object("p2", "cp2")))["ok"]
    assert (await world.manager("restart"))["ok"]


async def test_pod_without_room_leaves_it_to_others(world: DraWorld) -> None:
    for pod in ("p1", "p2"):
        await world.put_claim(f"c{pod}", pod)
    await world.manager("prepare", pod=pod_object("p1", "cp1"))
    left = MOST_VALUES - encode(world.node.manager.cache, V1_34).count(",")
    world.node.manager.cache.add(ClaimInfo("u", "c", "n", drivers={"d": (PreparedDevice("", "", ("",) * (left - 9)),)}))

    error = (await world.manager("prepare", pod=pod_object("p2", "cp2")))["error"]

    assert error.startswith("prepare dynamic resources: checkpoint ResourceClaim cache: could not save checkpoint ")
    assert (await world.manager("might_need_unprepare", uid="p2"))["value"] is False
    assert (await world.manager("unprepare", pod=pod_object("p1", "cp1")))["ok"]


async def test_disk_that_takes_nothing_fails_the_pod(world: DraWorld) -> None:
    await world.put_claim("c1", "p1")
    path = world.folder / "dra_manager_state"
    path.unlink()
    path.mkdir()

    answer = await world.manager("prepare", pod=pod_object("p1", "c1"))

    assert answer["error"].startswith("prepare dynamic resources: checkpoint ResourceClaim cache: could not save")
