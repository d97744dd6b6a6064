"""What `up` and `join` make of their options of nodes."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from scenarios.story.specs import PluginSpec
from scenarios.up.options import NodeOptions, node_options


def given(*arguments: str) -> NodeOptions:
    taken: list[NodeOptions] = []
    command = click.command()(node_options(lambda nodes: taken.append(nodes)))
    CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)
    return taken[0]


def strategy(plugin: PluginSpec) -> str | None:
    return plugin.env.get("DEVICE_LIST_STRATEGY")


@pytest.mark.parametrize(("runtime", "expected"), [("process", "cdi-annotations"), ("book-keeping", None)])
def test_containers_that_run_get_their_gpus_by_cdi(runtime: str, expected: str | None) -> None:
    options = given("--profile", "t4", "--runtime", runtime, "--image", "vendor/plugin=nvidia")

    (plugin,) = options.plugins()
    images = options.images()

    assert strategy(plugin) == strategy(images["simkubelet/nvidia"]) == strategy(images["vendor/plugin"]) == expected
    assert strategy(images["simkubelet/gopher"]) is None
