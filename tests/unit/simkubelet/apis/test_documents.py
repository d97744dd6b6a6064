"""Files, JSON and YAML of others are read within bounds that no interpreter decides."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis import documents
from simkubelet.apis.documents import (
    LARGEST_FILE,
    MOST_LEVELS,
    BoundsError,
    check_depth,
    compose_yaml,
    load_json,
    load_yaml,
    read_file,
)

FEW = 4
VALUES = st.recursive(
    st.none() | st.text(alphabet='[]{}"\\a*', max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(alphabet="[{b", max_size=2), inner, max_size=2),
    max_leaves=8,
)


def levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels, inner), default=0)


@pytest.fixture
def few_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_LEVELS", FEW)


@pytest.fixture
def endless_stack() -> Iterator[None]:
    """Python's readers do not refuse what is deep by themselves, as those of Python 3.14 on a large stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("endless_stack")
@pytest.mark.parametrize(
    "text", ["[" * 3_000, "[" * 300 + "]" * 300, '{"a":' * 3_000, '[{"a":' * 150 + "1" + "}]" * 150]
)
def test_depth_is_counted_whatever_the_interpreter_can_do(text: str) -> None:
    for read in (load_json, load_yaml):
        with pytest.raises(BoundsError, match=r"^exceeded max depth$"):
            read(text)


def test_deepest_document_is_read() -> None:
    text = "[" * MOST_LEVELS + "]" * MOST_LEVELS

    assert levels(load_json(text)) == levels(load_yaml(text)) == MOST_LEVELS
    check_depth(load_json(text))


def test_what_is_wrong_before_the_depth_comes_first() -> None:
    with pytest.raises(json.JSONDecodeError):
        load_json("[tru, " + "[" * 5_000)


@pytest.mark.usefixtures("few_levels")
@given(value=VALUES, is_compact=st.booleans())
def test_json_is_read_where_its_levels_are_few(*, value: Any, is_compact: bool) -> None:
    text = json.dumps(value, indent=None if is_compact else 1)

    if levels(value) <= FEW:
        assert load_json(text) == load_json(text.encode("utf-16")) == value
        check_depth(value, FEW)
    else:
        with pytest.raises(BoundsError):
            load_json(text)
        with pytest.raises(BoundsError):
            check_depth(value, FEW)


@pytest.mark.usefixtures("few_levels")
@given(value=VALUES, is_flow=st.sampled_from([True, False, None]), is_utf16=st.booleans())
def test_yaml_is_read_where_its_levels_are_few(*, value: Any, is_flow: bool | None, is_utf16: bool) -> None:
    text: Any = yaml.safe_dump(value, default_flow_style=is_flow)
    text = text.encode("utf-16") if is_utf16 else text

    for kind in (yaml.SafeLoader, None):
        if levels(value) <= FEW:
            assert load_yaml(text, kind) == value
        else:
            with pytest.raises(BoundsError) as caught:
                compose_yaml(text, kind)
            assert caught.value.mark is not None


def bomb(link: str) -> str:
    return "a0: &a0 {x: y}\n" + "".join(
        f"a{n}: &a{n} {link.format(', '.join([f'*a{n - 1}'] * 9))}\n" for n in range(1, 9)
    )


@pytest.mark.parametrize("kind", [yaml.SafeLoader, None])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(bomb("[{}]"), "excessive aliasing", id="laughs"),
        pytest.param(bomb("{{<<: [{}]}}"), "excessive aliasing", id="merges"),
        pytest.param("".join(f"a{n}: &a{n} [[*a{n - 1}]]\n" for n in range(1, 300)), "max depth|aliasing", id="chain"),
        pytest.param("a: &a [*a]", "anchor 'a' value contains itself", id="itself"),
        pytest.param("a: &a {b: {<<: *a}}", "anchor 'a' value contains itself", id="merges itself"),
        pytest.param("\n".join("  " * n + "a:" for n in range(300)), "max depth", id="block"),
        pytest.param("- " * 300 + "x", "max depth", id="compact"),
        pytest.param("? " * 300 + "x", "max depth", id="keys"),
        pytest.param("[a: " * 150 + "]" * 150, "max depth", id="pairs"),
        pytest.param("\x85".join("  " * n + "a:" for n in range(300)), "max depth", id="next line"),
    ],
)
def test_yaml_beyond_the_bounds_is_refused(text: str, words: str, kind: type[yaml.SafeLoader] | None) -> None:
    text = text.replace("*a0]]", "x]]")
    with pytest.raises(BoundsError, match=words):
        load_yaml(text, kind)
    with pytest.raises(BoundsError, match=words):
        load_yaml(text.encode("utf-16"), kind)


@pytest.mark.parametrize("text", ["!!bool x", "!!int ''", "!!float ''", "!!timestamp x", "!!int 1:a", "!!null [a]"])
def test_value_that_does_not_fit_its_tag_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, yaml.YAMLError)):
        load_yaml(text)


def test_only_the_first_document_is_read() -> None:
    assert load_yaml("a: 1\n---\n" + "[" * 5_000, is_first=True) == {"a": 1}
    assert load_yaml("", is_first=True) is None
    with pytest.raises(yaml.YAMLError, match="single document"):
        load_yaml("a: 1\n---\nb: 2")


@pytest.mark.parametrize("size", [LARGEST_FILE, LARGEST_FILE + 1, 1 << 40])
def test_file_is_read_up_to_its_bound(tmp_path: Path, size: int) -> None:
    file = tmp_path / "large"
    file.touch()
    os.truncate(file, size)

    if size <= LARGEST_FILE:
        assert len(read_file(file)) == size
    else:
        with pytest.raises(OSError, match="larger than 10 MiB"):
            read_file(file)


def test_device_without_an_end_is_refused() -> None:
    with pytest.raises(OSError, match="larger than 100 bytes"):
        read_file("/dev/zero", 100)


def test_pipe_is_read_as_far_as_somebody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_PATIENCE_S", 0.01)
    reads, writes = os.pipe()
    os.write(writes, b"name: a")
    os.mkfifo(tmp_path / "pipe")

    for path in (f"/dev/fd/{reads}", tmp_path / "pipe"):
        with pytest.raises(TimeoutError, match="nothing was written"):
            read_file(path)
    os.write(writes, b"name: b")
    os.close(writes)

    assert read_file(f"/dev/fd/{reads}") == b"name: b"
    os.close(reads)


def test_folder_and_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none")


@pytest.mark.parametrize("tag", ["", "!!int "])
@pytest.mark.parametrize(
    "number",
    ["1" + ":59" * 250_000, "1" + ":59" * 3_000, "0x" + "f" * 4_000, "-0b" + "1_" * 8_000, "0" + "7" * 5_000],
    ids=["base 60, hours", "base 60", "base 16", "base 2", "base 8"],
)
def test_number_that_cannot_be_written_again_is_refused(tag: str, number: str) -> None:
    with pytest.raises(BoundsError, match=r"^a number of more than 3500 characters$") as caught:
        load_yaml(f"a: 1\nx: {tag}{number}")

    assert (caught.value.mark.line, caught.value.mark.column) == (1, 3)


@pytest.mark.parametrize("number", ["1" + ":59" * 1_166, "0x" + "f" * 3_498, "9" * 3_500], ids=["60", "16", "10"])
def test_longest_numbers_can_be_written_again(number: str) -> None:
    assert int(str(load_yaml(f"x: {number}")["x"])) > 10**2000


def test_text_that_looks_like_a_long_number_is_a_text() -> None:
    assert load_yaml(f"x: '{'0' * 5_000}'") == {"x": "0" * 5_000}
    assert load_yaml("x: 1:59:59") == {"x": 7199}
