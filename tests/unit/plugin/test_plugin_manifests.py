"""Fed in: ``--manifest`` of every plugin; observed: the answer of a strict API server, and its contents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from plugin.cli import PLUGINS, main
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.objects.objects import Objects, WallTime
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.clock import ManualClock
from tests.support.gpu_memory_world import NoLogs

DESCRIPTION = 'resource: example.com/seat\ndevices: [/srv/seats/*, "/dev/seat?"]\n'
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/kube-system/configmaps",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "DaemonSet": "/apis/apps/v1/namespaces/kube-system/daemonsets",
    "Pod": "/api/v1/namespaces/kube-system/pods",
}
MANIFESTED = sorted(set(PLUGINS) - {"stub"})
OVER_THE_API = ("gpu-memory", "gpushare", "volcano")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "seats.yaml"
    file.write_text(DESCRIPTION)
    return file


def arguments(plugin: str, config: Path) -> list[str]:
    """What a plugin cannot do without."""
    return {"generic": ["--config", str(config)], "iluvatar": [f"--config-file={config}"]}.get(plugin, [])


def manifest(capsys: pytest.CaptureFixture[str], plugin: str, *options: str) -> dict[str, Any]:
    """Its objects by kind."""
    assert main([plugin, *options, "--manifest"]) == 0
    return {one["kind"]: one for one in yaml.safe_load_all(capsys.readouterr().out)}


def container(objects: dict[str, Any]) -> Any:
    (found,) = objects["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    return found


@pytest.fixture
async def cluster() -> AsyncIterator[aiohttp.ClientSession]:
    objects = Objects(WallTime(ManualClock()))
    server = ApiServer(objects, all_strategies(objects), logs=NoLogs(), plain=True)
    NamespaceController(server.registry).ensure_namespaces()
    await server.start()
    async with aiohttp.ClientSession(server.url) as session:
        yield session
    await server.stop()


@pytest.mark.parametrize("plugin", MANIFESTED)
async def test_strict_api_server_takes_the_manifest_and_its_pods(
    plugin: str, config: Path, cluster: aiohttp.ClientSession, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = manifest(capsys, plugin, *arguments(plugin, config))
    template = objects["DaemonSet"]["spec"]["template"]
    objects["Pod"] = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "p", **template["metadata"]}}

    for kind, one in objects.items():
        async with cluster.post(PATHS[kind], json=one, params={"fieldValidation": "Strict"}) as answer:
            assert (answer.status, answer.headers.get("Warning")) == (201, None), await answer.text()


@pytest.mark.parametrize("plugin", MANIFESTED)
def test_access_to_the_cluster_is_for_plugins_that_need_it(
    plugin: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = manifest(capsys, plugin, *arguments(plugin, config))

    is_needed = plugin in OVER_THE_API
    pod = objects["DaemonSet"]["spec"]["template"]["spec"]
    assert {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"} <= objects.keys() or not is_needed
    assert ("serviceAccountName" in pod) is is_needed
    assert ("NODE_NAME" in {env["name"] for env in container(objects).get("env", ())}) is is_needed


def test_arguments_and_folders_follow_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = manifest(
        capsys, "gopher", "--directory", "/srv/gophers", f"--kubelet-dir={tmp_path}", "--quirks", "original"
    )

    assert container(objects)["args"] == [
        "--directory", "/srv/gophers", f"--kubelet-dir={tmp_path}", "--quirks", "original",
    ]  # fmt: skip
    assert {mount["mountPath"] for mount in container(objects)["volumeMounts"]} == {"/srv/gophers", str(tmp_path)}


@pytest.mark.parametrize("form", ["--config {}", "--config={}"])
def test_file_is_included_in_a_config_map(config: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    objects = manifest(capsys, "generic", *form.format(config).split(), "--log-level", "debug")

    assert objects["ConfigMap"]["data"] == {"seats.yaml": DESCRIPTION}
    assert container(objects)["args"] == ["--config", "/etc/simkubelet/seats.yaml", "--log-level", "debug"]
    mounts = [mount["mountPath"] for mount in container(objects)["volumeMounts"]]
    assert mounts == ["/var/lib/kubelet/device-plugins", "/dev", "/srv/seats", "/etc/simkubelet"]


def test_rights_grow_with_what_the_nvidia_plugin_is_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    def rights(*options: str) -> Any:
        return container(manifest(capsys, "nvidia", *options))["securityContext"]

    assert rights() == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert rights("--mig-strategy=mixed")["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert rights("--pass-device-specs=true") == {"privileged": True}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param(["gopher", "--host-root", "/"], "--host-root makes no sense with --manifest", id="host root"),
        pytest.param(["iluvatar", "--config-file", "/nowhere"], "--config-file /nowhere: No such file", id="no file"),
        pytest.param(["gopher", "--directory", "gophers"], "'gophers' cannot be mounted into a pod", id="relative"),
        pytest.param(["gopher", "--kubelet-dir", "/a/../b"], "'/a/../b' cannot be mounted into a pod", id="backstep"),
        pytest.param(["generic"], "Missing option '--config'", id="no description"),
    ],
)
def test_what_makes_no_manifest_is_reported(
    options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*options, "--manifest"]) == 2

    said = capsys.readouterr()
    assert not said.out
    assert complaint in said.err
    assert len(said.err.splitlines()) == 1
