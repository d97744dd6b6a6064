"""The files that `simkubelet up --files` puts on nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scenarios.up import cluster
from scenarios.up.cli import up
from scenarios.up.cluster import ClusterSpec


@pytest.fixture
def specs(monkeypatch: pytest.MonkeyPatch) -> list[ClusterSpec]:
    """What clusters would have been made of."""
    made: list[ClusterSpec] = []
    monkeypatch.setattr(cluster, "run", lambda spec, where: made.append(spec))
    return made


def called(*files: str) -> Result:
    return CliRunner().invoke(up, [word for file in files for word in ("--files", file)] + ["--nodes", "2"])


def test_files_are_empty_or_have_the_content_of_others(specs: list[ClusterSpec], tmp_path: Path) -> None:
    (tmp_path / "conf" / "more").mkdir(parents=True)
    (tmp_path / "conf" / "a.yaml").write_text("a: 1")
    (tmp_path / "conf" / "more" / "b=c").write_text("b")

    result = called("/dev/gopher", f"/etc/one={tmp_path}/conf/a.yaml", f"/etc/all={tmp_path}/conf")

    assert result.exit_code == 0, result.output
    contents = {"/dev/gopher": "", "/etc/one": "a: 1", "/etc/all/a.yaml": "a: 1", "/etc/all/more/b=c": "b"}
    assert [node.contents for node in specs[0].nodes] == [contents, contents]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("etc/x", "'etc/x': expected an absolute path on the node"),
        ("/etc/../x", "expected an absolute path on the node"),
        ("/etc/x={folder}/none", "'{folder}/none' cannot be read: No such file or directory"),
        ("/etc/x={folder}/bytes", "'{folder}/bytes' is no text in UTF-8"),
    ],
)
def test_file_that_cannot_be_made_is_refused(specs: list[ClusterSpec], given: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")

    result = called(given.format(folder=tmp_path))

    assert (result.exit_code, specs) == (2, [])
    assert why.format(folder=tmp_path) in result.output.replace("\n", " ")
