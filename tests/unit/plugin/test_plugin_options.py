"""Fed in: click as it was before its types became generic, no arguments; observed: the options load, the help."""

from __future__ import annotations

import importlib.util

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
