"""What the supervisor of a view is given, without one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simkubelet._internal.view_bindings import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(str(tmp_path / "view"))
    made.show("", str(tmp_path))
    return made


def rows(table: Table) -> list[tuple[str, ...]]:
    file = table.finish()
    texts = os.pread(file, 1 << 16, 0).decode().split("\0")[:-1]
    os.close(file)
    return [tuple(texts[at : at + 3]) for at in range(0, len(texts), 3)]


def test_place_is_that_of_the_innermost_binding(table, tmp_path):
    table.show("/etc/skt", "/srv/own", is_writable=True)

    assert table.place("/etc/skt/file") == "/srv/own/file"
    assert table.place("/etc/sktx") == f"{tmp_path}/etc/sktx"
    assert rows(table) == [("r", "", str(tmp_path)), ("w", "/etc/skt", "/srv/own")]


def test_what_covers_a_folder_covers_what_was_shown_below(table, tmp_path):
    found = os.open(tmp_path, os.O_PATH)
    table.show("/a/b", "/b")
    table.show("/ab", "/c")

    table.cover(found, "/a", is_nodes=True)

    os.close(found)
    assert rows(table)[1:] == [("r", "/ab", "/c"), ("w", "/a", str(tmp_path))]


def test_processes_can_be_written_as_their_host_allows(table):
    found = os.open("/proc", os.O_PATH)
    table.bind(found, found, "/proc", is_nodes=False)

    os.close(found)
    assert rows(table)[1:] == [("w", "/proc", "/proc")]


def test_hidden_folder_is_an_empty_one_that_is_read(table, tmp_path):
    table.hide("/etc/ssl/private")

    assert list((tmp_path / "view-empty").iterdir()) == []
    assert rows(table)[1:] == [("r", "/etc/ssl/private", f"{tmp_path}/view-empty")]
