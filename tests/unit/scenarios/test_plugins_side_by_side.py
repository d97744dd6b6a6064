"""Who runs in a view of the node: a foreign plugin, and each bundled one beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.backends.world import plugins as world_plugins
from scenarios.backends.world.node import SimNode
from scenarios.backends.world.plugins import SimPlugins
from scenarios.story.specs import NodeSpec, PluginSpec
from scenarios.trace.trace import Trace
from simkubelet.model.clock import ManualClock

BUNDLED = PluginSpec(name="bundled", builtin="gopher")
OTHER = PluginSpec(name="other", builtin="gopher")
STUB = PluginSpec(name="stub", builtin="stub")
FOREIGN = PluginSpec(name="foreign", command=("true",))


@pytest.mark.parametrize(
    ("specs", "replacements", "has_foreign", "seen"),
    [
        ((BUNDLED, OTHER), {}, False, set()),
        ((BUNDLED, FOREIGN), {}, False, {"bundled", "foreign"}),
        ((BUNDLED, OTHER), {"other": ("true",)}, False, {"bundled", "other"}),
        ((BUNDLED, OTHER), {}, True, {"bundled", "other"}),
    ],
    ids=["bundled ones", "beside a foreign one", "beside one that takes another's place", "beside foreign images"],
)
def test_bundled_plugin_runs_in_a_view_beside_a_foreign_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    specs: tuple[PluginSpec, ...],
    replacements: dict[str, tuple[str, ...]],
    has_foreign: bool,
    seen: set[str],
) -> None:
    monkeypatch.setattr(world_plugins, "_seen", lambda node, program, folder, given, **_: ["view", *program])
    clock = ManualClock()
    node = SimNode(NodeSpec(name="node-1"), tmp_path)

    made = SimPlugins(specs, replacements, clock, Trace(now=clock.now), has_foreign=has_foreign).add_node(node)

    assert {one.command.name for one in made if one.command.argv[0] == "view"} == seen


@pytest.mark.parametrize(
    ("specs", "spawn"),
    [((STUB,), "spawn_task"), ((STUB, BUNDLED), "spawn_task"), ((STUB, FOREIGN), "spawn_process")],
    ids=["alone", "beside a bundled one", "beside a foreign one"],
)
def test_stub_is_no_task_of_the_simulator_beside_a_foreign_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, specs: tuple[PluginSpec, ...], spawn: str
) -> None:
    monkeypatch.setattr(world_plugins, "_seen", lambda node, program, folder, given, **_: ["view", *program])
    clock = ManualClock()
    plugins = SimPlugins(specs, {}, clock, Trace(now=clock.now), tasks={"stub"})

    stub, *_ = plugins.add_node(SimNode(NodeSpec(name="node-1"), tmp_path))

    assert stub._spawn is getattr(world_plugins, spawn)


@pytest.mark.parametrize("path", ["/tmp", "/var/tmp", "/dev/shm", "/run/user"])
def test_folder_where_programs_of_the_host_have_sockets_is_the_nodes_own(tmp_path: Path, path: str) -> None:
    node = SimNode(NodeSpec(name="node-1"), tmp_path)
    node.create()

    place = node.view({}).places[path]

    assert place.is_relative_to(tmp_path)
    assert list(place.iterdir()) == []


CREDENTIALS = (
    "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_PORT_443_TCP", "SSH_AUTH_SOCK", "GITHUB_TOKEN", "CI_JOB_TOKEN",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_CLIENT_SECRET", "OPENAI_API_KEY", "PGPASSWORD", "DOCKER_AUTH_CONFIG",
    "MYSQL_PWD", "SSHPASS", "DB_PASS", "PGPASSFILE", "GPG_PASSPHRASE", "CI_JOB_JWT_V2", "GITHUB_PAT",
    "SSH_KEY", "SECRET_KEY_BASE", "VAULT_TOKENS", "TOKEN_1", "REDISCLI_AUTH", "AZURE_STORAGE_CONNECTION_STRING",
    "KUBE_CONFIG_PATH",
)  # fmt: skip
PASSED_ON = (
    "PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "GODEBUG", "HTTPS_PROXY", "NODE_NAME", "DEVICE_LIST_STRATEGY",
    "DP_DISABLE_HEALTHCHECKS", "MY_KEY", "TOKEN_BUCKETS", "KUBERNETES_VERSION", "PWD",
    "LOG_BYPASS",
)  # fmt: skip


@pytest.mark.parametrize("spec", [BUNDLED, STUB, FOREIGN], ids=lambda spec: spec.name)
def test_plugin_inherits_all_variables_but_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: PluginSpec
) -> None:
    monkeypatch.setattr(world_plugins, "_seen", lambda node, program, folder, given, **_: ["view", *program])
    for name in (*CREDENTIALS, *PASSED_ON):
        monkeypatch.setenv(name, "value")
    spec = spec.model_copy(update={"env": {"GITHUB_TOKEN": "of the story"}})

    env = world_plugins.plugin_command(SimNode(NodeSpec(name="node-1"), tmp_path), spec, None).env

    assert {name: env[name] for name in CREDENTIALS if name in env} == {"GITHUB_TOKEN": "of the story"}
    assert set(PASSED_ON) <= env.keys()


def test_plugin_with_the_api_has_the_kubeconfig_of_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_plugins, "_seen", lambda node, program, folder, given, **_: ["view", *program])
    monkeypatch.setenv("KUBECONFIG", "/nope")
    node = SimNode(NodeSpec(name="node-1"), tmp_path)
    node.kubeconfig = tmp_path / "kubeconfig"

    command = world_plugins.plugin_command(node, FOREIGN.model_copy(update={"api": True}), None)

    assert command.env["KUBECONFIG"] == str(tmp_path / "kubeconfig")
