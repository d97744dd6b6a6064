"""Claims of a checkpoint that stay texts until somebody asks for them: nothing else can be seen of it."""

from __future__ import annotations

import json
import string
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.dra.checkpoint import CHECKPOINT_NAME, BadCheckpointError, ClaimsFile, decode, encode
from simkubelet.dra.claim_cache import ClaimInfoCache
from simkubelet.dra.claim_info import ClaimInfo, PreparedDevice
from simkubelet.dra.claim_text import UnreadClaim
from simkubelet.model.pod import PodUID
from simkubelet.model.version import Version, version

Claim = ClaimInfo | UnreadClaim
V1_34, V1_35 = version("1.34"), version("1.35")

usual_texts = st.text(string.ascii_letters + " -./='", max_size=4)
safe_texts = usual_texts | st.text("[]{}:,x", max_size=4)
"""Without what JSON escapes."""
all_texts = safe_texts | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def claims(texts: st.SearchStrategy[str], most: int = 2) -> st.SearchStrategy[list[ClaimInfo]]:
    """Claims of different names, with so many pods, drivers and devices at most."""
    lists = st.none() | st.lists(texts, max_size=2).map(tuple)
    devices = st.builds(PreparedDevice, texts, texts, lists, lists, st.none() | texts)
    pods = st.lists(texts.map(PodUID), max_size=most, unique=True).map(dict.fromkeys)
    drivers = st.dictionaries(texts, st.none() | st.lists(devices, max_size=2).map(tuple), max_size=most)
    infos = st.builds(ClaimInfo, texts, texts, texts, pods, drivers)
    return st.lists(infos, max_size=3, unique_by=lambda info: (info.namespace, info.name))


def with_data(data: str) -> str:
    """A file with this data and its checksum."""
    return json.dumps({"Data": data, "Checksum": crc32(data.encode())})


@contextmanager
def folder_with(text: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / CHECKPOINT_NAME).write_text(text, encoding="utf-8", newline="")
        yield Path(folder)


def saved(file: ClaimsFile, folder: Path, loaded: Iterable[Claim]) -> str:
    file.save(ClaimInfoCache(loaded).as_they_are())
    return (folder / CHECKPOINT_NAME).read_text(encoding="utf-8")


def outcome(load: Callable[[], Sequence[Claim]]) -> Sequence[Claim] | str:
    """The claims, or why the file cannot be used."""
    try:
        return load()
    except BadCheckpointError as error:
        return str(error)


def read(claim: Claim) -> ClaimInfo:
    return claim.read() if isinstance(claim, UnreadClaim) else claim


def check_load(text: str, minor: Version) -> None:
    """A file leads to the same claims, or the same error, as where all of it is read; and to the same file."""
    with folder_with(text) as folder:
        file = ClaimsFile(folder, minor)
        expected, loaded = outcome(lambda: decode(text)), outcome(file.load)
        if isinstance(expected, str) or isinstance(loaded, str):
            assert loaded == expected
            return
        infos = list(map(read, expected))
        cache = ClaimInfoCache(infos)

        # Files may have several claims of one name, of which the last counts.
        assert saved(file, folder, loaded) == encode(cache, minor)
        assert list(map(read, loaded)) == infos
        assert list(ClaimInfoCache(loaded)) == list(cache)


@given(claims(usual_texts, most=1))
def test_usual_claims_stay_texts_and_are_saved_as_they_were(written: list[ClaimInfo]) -> None:
    text = encode(written, V1_35)
    with folder_with(text) as folder:
        file = ClaimsFile(folder, V1_35)

        loaded = file.load()

        assert all(isinstance(claim, UnreadClaim) for claim in loaded)
        assert saved(file, folder, loaded) == text
        assert list(ClaimInfoCache(loaded)) == written


@given(claims(safe_texts) | claims(all_texts), st.sampled_from([V1_34, V1_35]), st.sampled_from([V1_34, V1_35]))
def test_file_of_a_kubelet_is_as_if_it_was_read(written: list[ClaimInfo], writer: Version, reader: Version) -> None:
    check_load(encode(written, writer), reader)


@given(claims(safe_texts), st.data())
def test_changed_file_is_as_if_it_was_read(written: list[ClaimInfo], data: st.DataObject) -> None:
    text = json.loads(encode(written, V1_35))["Data"]
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(begin + 12, len(text))))
    other = st.sampled_from(
        ["", ",", "{}", "[]", "null", "1", '"', '\\"', '"x":', ',"x":{}', "\n", " ", text[:begin][-9:]]
    )

    check_load(with_data(text[:begin] + data.draw(other) + text[end:]), V1_35)


@given(claims(safe_texts), st.data())
def test_claims_that_are_asked_for_can_change(written: list[ClaimInfo], data: st.DataObject) -> None:
    with folder_with(encode(written, V1_35)) as folder:
        file = ClaimsFile(folder, V1_35)
        cache = ClaimInfoCache(file.load())
        if data.draw(st.booleans()):
            file.save(cache.as_they_are())
        for info in written:
            if data.draw(st.booleans()):
                asked = cache.find(info.namespace, info.name)
                assert asked is not None
                if data.draw(st.booleans()):
                    asked.pods[PodUID("one more")] = info.pods[PodUID("one more")] = None
        file.save(cache.as_they_are())

        assert (folder / CHECKPOINT_NAME).read_text() == encode(written, V1_35)


@pytest.mark.parametrize(
    "maps",
    [
        pytest.param('"PodUIDs":{"b":{},"a":{}},"DriverState":{}', id="pods"),
        pytest.param(
            '"PodUIDs":{},"DriverState":{"b":{"Devices":null},"a":{"Devices":null}}',
            id="drivers",
        ),
    ],
)
def test_maps_in_another_order_are_sorted(tmp_path: Path, maps: str) -> None:
    empty = json.loads(encode([], V1_35))["Data"]
    claim = f'{{"ClaimUID":"u","ClaimName":"c","Namespace":"n",{maps}}}'
    text = with_data(empty.replace("[]", f"[{claim}]"))
    (tmp_path / CHECKPOINT_NAME).write_text(text)
    file = ClaimsFile(tmp_path, V1_35)

    assert saved(file, tmp_path, file.load()) == encode(decode(text), V1_35) != text


def test_claim_is_read_once(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT_NAME).write_text(encode([ClaimInfo("u", "c", "n"), ClaimInfo("v", "d", "n")], V1_34))
    cache = ClaimInfoCache(ClaimsFile(tmp_path, V1_34).load())

    info = cache.find("n", "c")

    assert info is cache.find("n", "c")
    assert [type(claim) for claim in cache.as_they_are()] == [ClaimInfo, UnreadClaim]
    assert next(iter(cache)) is info
    assert [one.name for one in cache] == ["c", "d"]
    assert [type(claim) for claim in cache.as_they_are()] == [ClaimInfo, ClaimInfo]
    assert list(map(id, cache)) == list(map(id, cache.as_they_are()))
