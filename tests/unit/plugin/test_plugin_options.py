"""Fed in: click as it was before its types became generic, no arguments; observed: the options load, the help."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click
import pytest

from plugin.cli import main
from plugin.command import options


def test_options_load_where_the_types_of_click_cannot_be_subscripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.ParamType, "__class_getitem__", None, raising=False)
    spec = importlib.util.find_spec(options.__name__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)

    spec.loader.exec_module(module)

    assert module.GoBool().convert("T", None, None) is True


def test_no_plugin_named_is_answered_with_the_help_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Usage: plugin [OPTIONS] COMMAND [ARGS]...")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--file", "gpu-0"), "'gpu-0' is not ID=PATH with an absolute path", id="file without a path"),
        pytest.param(("--file", "gpu-0=dev"), "'gpu-0=dev' is not ID=PATH", id="relative path"),
        pytest.param(("--watches", "/run/x"), "--watches: no folder {root}/run/x; make it before", id="no folder"),
        pytest.param(("--registers", "found"), "--registers: no folder {root}/plugins_registry;", id="no registry"),
    ],
)
def test_stub_that_cannot_start_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "device-plugins").mkdir()

    status = main(["stub", "--kubelet-dir", f"{tmp_path}/device-plugins", "--host-root", str(tmp_path), *arguments])

    assert status == 2
    assert message.format(root=tmp_path) in " ".join(capsys.readouterr().err.split())
