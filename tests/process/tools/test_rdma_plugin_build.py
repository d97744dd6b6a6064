"""The build of Mellanox' plugin where it cannot be built; the session `nvidia` builds it in earnest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.build import rdma_plugin as build_rdma_plugin


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two modules in Go's cache, and a `go` that finds them and builds nothing but a file."""
    for name, file in (("plugin", "go.mod"), ("plugin", "go.sum"), ("netlink", "rdma_link_linux.go")):
        path = tmp_path / name / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"package netlink\n{build_rdma_plugin.ASKS}" if file.endswith(".go") else "")
        path.chmod(0o444)
    for folder in ("plugin", "netlink"):
        (tmp_path / folder).chmod(0o555)
    answers = {name: json.dumps({"Dir": str(tmp_path / name)}) for name in ("plugin", "netlink")}
    go = tmp_path / "go"
    go.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "version) echo go version fake ;;\n"
        '*-replace*) cat "${3##*=}/rdma_link_linux.go" > built ;;\n'
        f"*netlink) echo '{answers['netlink']}' ;;\n"
        f"*plugin) echo '{answers['plugin']}' ;;\n"
        'build*) while [ "$1" != -o ]; do shift; done; cat built > "$2" ;;\n'
        "esac\n"
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(build_rdma_plugin, "CACHE", tmp_path / "cache")
    return tmp_path


def test_plugin_is_built_with_the_answer_and_kept(modules: Path) -> None:
    first = build_rdma_plugin.build()
    (modules / "netlink").chmod(0o755)
    (modules / "netlink" / "rdma_link_linux.go").unlink()

    assert build_rdma_plugin.build() == first
    assert build_rdma_plugin.ASKS + "\t" + build_rdma_plugin.ANSWERS in first.read_text()


def test_library_that_asks_otherwise_is_one_line_and_exit_3(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = modules / "netlink" / "rdma_link_linux.go"
    source.chmod(0o644)
    source.write_text("package netlink\n")

    assert build_rdma_plugin.main() == 3
    assert capsys.readouterr().err.startswith(
        "error: github.com/vishvananda/netlink asks for the RDMA subsystem's mode"
    )
    assert [path for path in (modules / "cache").rglob("*") if path.is_file()] == []
