"""The build of NVIDIA's plugin where it cannot be built; the session `nvidia` builds it in earnest."""

from __future__ import annotations

import os

import pytest

from tools.build import nvidia_plugin as build_nvidia_plugin


@pytest.fixture
def fake_go(tmp_path, monkeypatch):
    """Put a `go` on the PATH that answers `version` and runs the given shell code for `build`."""

    def install(build: str) -> None:
        go = tmp_path / "go"
        go.write_text(f'#!/bin/sh\nif [ "$1" = version ]; then echo go version fake; exit; fi\n{build}\n')
        go.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(build_nvidia_plugin, "CACHE", tmp_path / "cache")
    return install


def test_without_go_one_line_and_exit_3(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert build_nvidia_plugin.main() == 3
    assert capsys.readouterr().err == (
        "error: no `go` on the PATH: install Go 1.25 or newer to run NVIDIA's own plugin\n"
    )


def test_failed_build_names_the_reason_and_leaves_no_file(fake_go, tmp_path, capsys):
    fake_go("echo compiling >&2; echo 'module not found' >&2; exit 1")

    assert build_nvidia_plugin.main() == 3
    assert capsys.readouterr().err == "error: `go build` failed in tests/e2e/nvidia_go: module not found\n"
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_second_build_takes_the_kept_binary(fake_go, tmp_path):
    output = 'while [ "$1" != -o ]; do shift; done; echo binary > "$2"'
    fake_go(output)
    first = build_nvidia_plugin.build()
    fake_go("exit 1")

    assert build_nvidia_plugin.build() == first
    assert first.read_text() == "binary\n"
