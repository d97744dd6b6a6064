"""The page about plugins beside their command lines, the catalogue of stories and the image's recipe."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from plugin.cli import PLUGINS
from plugin.command.manifest import manifest
from plugin.command.plugin_command import PluginCommand
from plugin.command.pod_needs import PodNeeds

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
SERVING = sorted(PLUGINS.keys() - {"stub"})
STORIES = {file.stem: file for file in (ROOT / "scenarios" / "catalog").rglob("*.yaml")}


def chapter(plugin: str) -> str:
    """What the page says of one plugin."""
    found = re.search(rf"^## {plugin}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/plugins.md has no chapter {plugin}"
    return found[1]


def command(plugin: str) -> PluginCommand:
    found = import_module(PLUGINS[plugin], "plugin").command
    assert isinstance(found, PluginCommand)
    return found


def quirks() -> Iterator[tuple[str, str]]:
    for plugin in SERVING:
        for quirk in command(plugin).quirks:
            yield plugin, quirk


@pytest.mark.parametrize("plugin", SERVING)
def test_every_plugin_but_the_stub_has_a_chapter(plugin: str) -> None:
    assert chapter(plugin)


@pytest.mark.parametrize(("plugin", "quirk"), [*quirks()])
def test_every_quirk_has_a_row_with_a_story_that_turns_it_on(plugin: str, quirk: str) -> None:
    row = re.search(rf"^\| `{quirk}` \| [^|]+ \| (.*) \|$", chapter(plugin), re.MULTILINE)
    assert row is not None, f"docs/plugins.md has no row for {quirk} of {plugin}"
    stories = re.findall(r"`([-a-z0-9]+)`", row[1])

    assert stories
    for story in stories:
        text = STORIES[story].read_text()
        assert any(
            spec.get("builtin") == plugin and spec.get("quirks") == "original"
            for spec in yaml.safe_load(text)["plugins"]
        )


@pytest.mark.parametrize("plugin", SERVING)
def test_every_row_is_a_quirk_of_the_plugin(plugin: str) -> None:
    table = chapter(plugin).partition("| quirk |")[2].partition("\n\n")[0]

    assert set(re.findall(r"^\| `([-a-z]+)` \|", table, re.MULTILINE)) == command(plugin).quirks.keys()


def test_image_is_started_as_the_manifest_says() -> None:
    recipe = (ROOT / "tools" / "plugin.Dockerfile").read_text()
    entry = re.search(r"^ENTRYPOINT (.*)$", recipe, re.MULTILINE)
    assert entry is not None
    (daemon_set,) = yaml.safe_load_all(manifest("gopher", [], Path("/k"), PodNeeds()))
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]

    assert container["command"] == [*json.loads(entry[1]), "gopher"]
