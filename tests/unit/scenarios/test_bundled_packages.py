from __future__ import annotations

import os

import pytest

from simkubelet._internal import bundle


@pytest.mark.parametrize(("package", "name"), [("plugin", "cli"), ("scenarios", "cli")])
def test_command_line_of_a_package_is_found(package: str, name: str) -> None:
    module = bundle.load(package, name)

    assert module.__name__ == f"{bundle.module_name(package)}.{name}"


def test_path_for_a_child_has_the_flat_packages_first_and_keeps_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/theirs")

    monkeypatch.setattr(bundle, "module_name", lambda package: package)
    assert bundle.python_path("plugin") == f"{bundle.CHECKOUT}{os.pathsep}/theirs"

    monkeypatch.setattr(bundle, "module_name", lambda package: f"simkubelet._bundled.{package}")
    assert bundle.python_path("plugin") == "/theirs"
