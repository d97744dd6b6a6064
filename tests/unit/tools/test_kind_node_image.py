"""Which node image the tests' cluster is made of, with scripts in the place of docker and the recipe."""

from __future__ import annotations

import pytest

from tools.build import kind_node_image


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder with a recipe below it, and a docker that has an image once the file `built` is there."""
    recipe = tmp_path / "kindnode"
    (recipe / "kube").mkdir(parents=True)
    (recipe / "kube" / "go.mod").write_text("module x\n\nrequire (\n\tk8s.io/kubernetes v1.34.4\n)\n")
    _script(tmp_path / "docker", f"test -e {tmp_path}/built")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("KIND_NODE_IMAGE", raising=False)
    monkeypatch.setattr(kind_node_image, "RECIPE", recipe)
    return tmp_path


def _script(file, text):
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_named_image_is_taken_as_it_is(machine, monkeypatch):
    monkeypatch.setenv("KIND_NODE_IMAGE", "own:1")
    _script(machine / "kindnode" / "build.sh", "exit 1")

    assert kind_node_image.node_image() == "own:1"


def test_without_a_recipe_the_image_is_kinds(machine):
    assert kind_node_image.node_image() is None
