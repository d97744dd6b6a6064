"""What is remembered of the writes to objects, and for how long."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.objects import objects as module
from simkubelet.cluster.objects.objects import Key, Objects, TooOldError, WallTime, Written
from tests.support.scheduled_cluster import StepClock

FRESH_S = 75
LEAST = 4


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few writes are remembered whatever their age."""
    monkeypatch.setattr(module, "_LEAST_REMEMBERED", LEAST)


class Writer:
    """Writes to two kinds and keeps all that it wrote."""

    def __init__(self) -> None:
        self.clock = StepClock()
        self.objects = Objects(WallTime(self.clock))
        self.written: list[Written] = []
        self._names = 0
        for kind in "ab":
            self.objects.subscribe(kind, self.written.append)

    def write(self, kind: str, later_s: int = 0, **body: object) -> None:
        self.clock.ms += later_s * 1000
        self._names += 1
        self.objects.create(Key(kind, "default", str(self._names)), body)

    def of(self, kind: str) -> list[Written]:
        return [one for one in self.written if one.key.kind == kind]


@pytest.mark.usefixtures("few")
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([0, 1, 20, 40, 80])), max_size=40))
def test_any_write_of_the_last_75_seconds_is_remembered(steps: list[tuple[str, int]]) -> None:
    writer = Writer()
    for kind, later_s in steps:
        writer.write(kind, later_s)

        for about in "ab":
            known = writer.of(about)
            for version in range(writer.objects.oldest(about), writer.objects.version + 1):
                newer = [one for one in known if one.version > version]
                assert writer.objects.since(version, about) == newer
            remembered = [one for one in known if one.version > writer.objects.oldest(about)]
            fresh = [one for one in known if one.at >= writer.clock.now() - FRESH_S]
            assert len(remembered) >= max(len(fresh), min(len(known), LEAST))


@pytest.mark.usefixtures("few")
def test_writes_to_other_kinds_let_old_ones_go():
    writer = Writer()
    for _ in range(10):
        writer.write("a")

    writer.write("b", FRESH_S + 1)

    assert len(writer.objects.since(writer.objects.oldest("a"), "a")) == LEAST
    with pytest.raises(TooOldError):
        writer.objects.since(writer.objects.oldest("a") - 1, "a")


def test_no_more_than_102400_fresh_writes_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_LEAST_REMEMBERED", LEAST)
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 10)
    writer = Writer()

    for _ in range(20):
        writer.write("a")

    assert len(writer.objects.since(writer.objects.oldest("a"), "a")) == 10


@pytest.mark.parametrize(("later_s", "remembered"), [(0, 128), (FRESH_S + 1, 4)])
def test_writes_of_large_objects_are_remembered_up_to_a_size(later_s: int, remembered: int) -> None:
    writer = Writer()
    for _ in range(200):
        # As large as a mebibyte when its other parts are counted too.
        writer.write("a", data={"text": "x" * ((1 << 20) - 1024)})

    writer.write("a", later_s)

    assert len(writer.objects.since(writer.objects.oldest("a"), "a")) == remembered + 1
    with pytest.raises(TooOldError):
        writer.objects.since(writer.objects.oldest("a") - 1, "a")


def test_names_of_large_maps_count_as_memory_of_writes() -> None:
    writer = Writer()
    for _ in range(8):
        writer.write("a", data={f"{number}{'x' * 8192}": "" for number in range(128)})

    writer.write("a", FRESH_S + 1)

    assert len(writer.objects.since(writer.objects.oldest("a"), "a")) == 4


def test_objects_are_in_the_order_of_their_paths():
    objects = Objects(WallTime(StepClock()))
    for namespace, name in [("b", "a"), ("a", "b"), ("a-b", "a"), ("a", "a")]:
        objects.create(Key("a", namespace, name), {})
    objects.remove(Key("a", "a", "b"))

    assert list(objects.by_path("a")) == ["a-b/a", "a/a", "b/a"]
    assert list(objects.by_path("a", "a")) == ["a/a"]
    assert list(objects.by_path("a", None, "a-b/a")) == ["a/a", "b/a"]


def random_values() -> st.SearchStrategy[object]:
    """Values whose maps have few names, so that two share some of them."""
    leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
    maps = partial(st.dictionaries, st.sampled_from("abcd"))
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | maps(inner), max_leaves=12)


@given(random_values(), random_values(), st.integers(0, 3))
def test_size_grows_by_what_two_states_do_not_share(old: object, new: object, most_fields: int) -> None:
    shared = {"old": old, "both": [old, new]}
    states = ({"a": old, "b": shared}, {"a": new, "b": shared})

    with patch.object(module, "_MOST_FIELDS", most_fields):
        for before, after in ((old, new), states):
            assert module._growth(after, before) == module._size(after) - module._size(before)
