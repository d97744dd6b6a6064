"""The digest that decides whether an install in a kept environment is still good."""

from __future__ import annotations

import pytest

from tools.build import inputs as build_inputs


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "fakegpu" / "native").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "fakegpu" / "native" / "state.c").write_text("int x;\n")
    monkeypatch.setattr(build_inputs, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["pyproject.toml", "fakegpu/native/state.c", "fakegpu/native/new/event.c"])
def test_change_of_a_compiled_file_changes_the_digest(checkout, name):
    before = build_inputs.digest()

    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("changed\n")

    assert build_inputs.digest() != before


def test_new_package_changes_the_digest(checkout):
    before = build_inputs.digest()

    (checkout / "plugin" / "amd").mkdir(parents=True)
    (checkout / "plugin" / "amd" / "__init__.py").write_text("")

    assert build_inputs.digest() != before


def test_change_of_a_python_module_keeps_the_digest(checkout):
    before = build_inputs.digest()

    (checkout / "fakegpu" / "machine.py").write_text("x = 1\n")

    assert build_inputs.digest() == before


@pytest.mark.parametrize("pattern", build_inputs.BY_CONTENT + build_inputs.BY_NAME)
def test_every_pattern_finds_files_of_the_checkout(pattern):
    assert list(build_inputs.matching((pattern,)))
