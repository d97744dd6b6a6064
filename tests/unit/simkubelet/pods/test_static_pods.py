from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkubelet.model.errors import InputError
from simkubelet.pods.static_pods import make_static_pod_folder, read_static_pods

RESOURCE = "example.com/stub"


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    folder.mkdir()
    return folder


@pytest.fixture
def write(manifests: Path) -> Callable[..., None]:
    """Writes the manifest of a static pod: ``write("web", env="1")``."""

    def write_one(name: str, count: int = 0, policy: str = "Always", **labels: str) -> None:
        container: dict[str, Any] = {"name": "c", "image": "none"}
        if count:
            container["resources"] = {"limits": {RESOURCE: count}}
        metadata = {"name": name, "labels": labels}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        manifest["spec"] = {"containers": [container], "restartPolicy": policy}
        (manifests / f"{name}.yaml").write_text(yaml.safe_dump(manifest))

    return write_one


@pytest.fixture
async def static_node(make_node: Any, manifests: Path) -> Any:
    return await make_node(static_pod_path=manifests)


async def test_static_pod_runs_and_has_a_mirror(static_node: Any, write: Any, faker: Any) -> None:
    name = f"{faker.unique.slug()}"
    write(name)

    await static_node.until(lambda: static_node.phase(f"{name}-node-1") == "Running")

    mirror = static_node.store.pod_named(f"{name}-node-1")
    annotations = mirror.manifest["metadata"]["annotations"]
    assert annotations["kubernetes.io/config.source"] == "file"
    assert annotations["kubernetes.io/config.hash"] == annotations["kubernetes.io/config.mirror"] == mirror.mirror_of
    assert mirror.uid != mirror.mirror_of
    assert ("Started", "Started container c") in static_node.pod_events(f"{name}-node-1")
    assert static_node.kubelet.containers_of(mirror)["c"].is_running


async def test_static_pod_that_was_there_before_the_kubelet_gets_devices_when_they_come(
    make_node: Any, manifests: Path, write: Any
) -> None:
    write("web", 1)
    node = await make_node(static_pod_path=manifests)

    # The resource is not known yet, so it is admitted without: nobody waits for a plugin.
    await node.until(lambda: node.phase("web-node-1") == "Running")

    assert node.devices("web-node-1") == ()


async def test_devices_of_a_static_pod_are_found_by_its_mirror(static_node: Any, write: Any) -> None:
    await static_node.plugin("d0")
    write("web", 1)

    await static_node.until(lambda: static_node.phase("web-node-1") == "Running")

    assert static_node.devices("web-node-1") == ("d0",)


async def test_phase_of_a_static_pod_that_ends_never_goes_back(static_node: Any, write: Any) -> None:
    write("job", policy="Never")
    await static_node.until(lambda: static_node.phase("job-node-1") == "Running")

    await static_node.kubelet.complete("job-node-1", "c", 0)
    await static_node.until(lambda: static_node.phase("job-node-1") == "Succeeded")

    assert [event.phase for event in static_node.of("pod-status")] == ["Running", "Succeeded"]


async def test_static_pod_that_ended_while_the_kubelet_was_down_does_not_go_back_first(
    static_node: Any, write: Any
) -> None:
    write("job", policy="Never")
    await static_node.until(lambda: static_node.phase("job-node-1") == "Running")
    await static_node.kubelet.stop()
    await static_node.kubelet.complete("job-node-1", "c", 1)

    await static_node.kubelet.start()
    await static_node.until(lambda: static_node.phase("job-node-1") == "Failed")

    assert [event.phase for event in static_node.of("pod-status")] == ["Running", "Failed"]


async def test_removed_file_ends_the_pod(static_node: Any, manifests: Path, write: Any) -> None:
    write("web")
    await static_node.until(lambda: static_node.phase("web-node-1") == "Running")

    (manifests / "web.yaml").unlink()

    await static_node.until(lambda: static_node.of("container-exited"))
    assert static_node.store.pod_named("web-node-1") is None


async def test_changed_file_is_another_pod_that_begins_when_the_first_has_ended(static_node: Any, write: Any) -> None:
    write("web")
    await static_node.until(lambda: static_node.phase("web-node-1") == "Running")
    first = static_node.store.pod_named("web-node-1").mirror_of

    write("web", tier="back")
    await static_node.until(lambda: len(static_node.of("container-started")) == 2)

    kinds = [event.kind for event in static_node.events if event.kind.startswith("container-")]
    assert kinds == ["container-started", "container-exited", "container-started"]
    assert static_node.store.pod_named("web-node-1").mirror_of != first


async def test_manifest_that_comes_back_while_its_pod_ends_begins_again_after_that_end(
    static_node: Any, manifests: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("web")
    await static_node.until(lambda: static_node.phase("web-node-1") == "Running")
    may_end, stop = asyncio.Event(), static_node.kubelet.runtime.stop

    async def stop_late(*arguments: Any, **options: Any) -> None:
        await may_end.wait()
        await stop(*arguments, **options)

    monkeypatch.setattr(static_node.kubelet.runtime, "stop", stop_late)
    (manifests / "web.yaml").unlink()
    await static_node.until(lambda: static_node.store.pod_named("web-node-1") is None)
    write("web")
    (manifests / "other.yaml").write_text((manifests / "web.yaml").read_text().replace("name: web", "name: other"))
    await static_node.until(lambda: static_node.phase("other-node-1") == "Running")

    may_end.set()
    await static_node.until(lambda: static_node.phase("web-node-1") == "Running")

    lives = [event.kind for event in static_node.events if event.kind.startswith("container-") and "web" in event.pod]
    assert lives == ["container-started", "container-exited", "container-started"]
    (manifests / "web.yaml").unlink()
    await static_node.until(lambda: len(static_node.of("container-exited")) == 2)


async def test_mirror_that_somebody_deletes_comes_back(static_node: Any, write: Any) -> None:
    write("web")
    await static_node.until(lambda: static_node.phase("web-node-1") == "Running")
    mirror = static_node.store.pod_named("web-node-1")

    static_node.store.delete_pod(mirror.uid)
    await static_node.until(lambda: static_node.of("pod-removed"))
    await static_node.until(lambda: static_node.phase("web-node-1") == "Running")

    assert static_node.store.pod_named("web-node-1").uid != mirror.uid
    assert not static_node.of("container-exited")


async def test_static_pod_continues_over_a_restart_of_the_kubelet(static_node: Any, write: Any) -> None:
    write("web")
    await static_node.until(lambda: static_node.phase("web-node-1") == "Running")
    mirror = static_node.store.pod_named("web-node-1")

    await static_node.kubelet.restart()
    await static_node.settled_pod(None)

    assert static_node.store.pod_named("web-node-1").uid == mirror.uid
    assert len([e for e in static_node.of("container-started") if e.pod == "web-node-1"]) == 1


async def test_files_that_are_not_manifests_are_left_out(manifests: Path, write: Any) -> None:
    write("web")
    (manifests / "broken.yaml").write_text("kind: [")
    (manifests / "other.yaml").write_text("kind: Service\nmetadata: {name: x}\n")
    (manifests / ".hidden.yaml").write_text((manifests / "web.yaml").read_text())
    (manifests / "folder").mkdir()

    pods = await read_static_pods(manifests, "Node-1", manifests.parent)

    assert [pod.name for pod in pods.values()] == ["web-node-1"]
    assert await read_static_pods(manifests / "missing", "node-1", manifests.parent) == {}


async def test_last_file_of_a_name_counts(manifests: Path, write: Any) -> None:
    write("web")
    (manifests / "z.yaml").write_text((manifests / "web.yaml").read_text().replace("none", "other"))

    (pod,) = (await read_static_pods(manifests, "node-1", manifests.parent)).values()

    assert pod.manifest["spec"]["containers"][0]["image"] == "other"


async def test_static_pods_stay_on_a_node_in_trouble(manifests: Path, write: Any) -> None:
    write("web")

    (pod,) = (await read_static_pods(manifests, "node-1", manifests.parent)).values()

    assert pod.manifest["spec"]["tolerations"] == [{"operator": "Exists", "effect": "NoExecute"}]


async def test_uid_says_manifest_node_and_file(manifests: Path, write: Any) -> None:
    write("web")
    (first,) = await read_static_pods(manifests, "a", manifests.parent)
    (second,) = await read_static_pods(manifests, "b", manifests.parent)
    write("web", tier="back")
    (third,) = await read_static_pods(manifests, "a", manifests.parent)

    assert len({first, second, third}) == 3
    assert (await read_static_pods(manifests, "a", manifests.parent)).keys() == {third}


POD = "apiVersion: v1\nkind: Pod\n"
CONTAINERS = "spec: {containers: [{name: main, image: example}]}"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 3_000,
        '{"a":' * 900 + "1" + "}" * 900,
        "at: 2020-13-45",
        f"number: {'1' * 5_000}",
        f"{POD}metadata: 5",
        f"{POD}metadata: {{name: a, annotations: [1]}}",
        f"{POD}metadata: {{name: a}}\nspec: [1]",
        f"{POD}metadata: {{name: a}}\nspec: {{tolerations: 5}}",
        f"{POD}metadata: {{name: a, 5: 6}}",
        f"{POD}metadata: {{name: ../../outside}}\n{CONTAINERS}",
        f"{POD}metadata: {{name: a, namespace: ../..}}\n{CONTAINERS}",
        f"{POD}metadata: {{name: a, uid: ../../x}}\n{CONTAINERS}",
        f"{POD}metadata: {{name: a}}\n{CONTAINERS.replace('main', '../main')}",
    ],
    ids=str.__len__,
)
async def test_hostile_manifest_is_left_out_and_logged(
    manifests: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (manifests / "hostile.yaml").write_text(text)

    assert await read_static_pods(manifests, "node", manifests.parent) == {}
    assert "Could not process manifest file" in caplog.text


async def test_entry_that_is_no_manifest_hides_no_other(
    tmp_path: Path, write: Any, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "node"
    folder = directory / "root" / "etc" / "manifests"
    folder.mkdir(parents=True)
    write("inside")
    write("outside")
    (tmp_path / "manifests" / "inside.yaml").rename(directory / "root" / "in.yaml")
    (folder / "a-in.yaml").symlink_to("/in.yaml")
    (folder / "a-out.yaml").symlink_to("../../../../manifests/outside.yaml")
    (folder / "a-itself.yaml").symlink_to("a-itself.yaml")
    os.mkfifo(folder / "a-fifo.yaml")
    (folder / "a-folder.yaml").mkdir()

    pods = await read_static_pods(folder, "node", directory)

    assert [pod.name for pod in pods.values()] == ["inside-node"]
    assert [record.getMessage().split(": ")[0] for record in caplog.records] == [
        "Could not process manifest file",
        "Could not get metadata",
        "Could not get metadata",
    ]


async def test_folder_of_manifests_leads_nowhere_outside_of_the_node(tmp_path: Path, write: Any) -> None:
    directory = tmp_path / "node"
    folder = directory / "root" / "etc" / "manifests"
    folder.parent.mkdir(parents=True)
    folder.symlink_to("../../../new/manifests")
    write("outside")
    (tmp_path / "manifests").rename(tmp_path / "new")

    with pytest.raises(InputError, match="manifests: cannot be made: File exists; choose another folder"):
        make_static_pod_folder(folder, directory)

    assert await read_static_pods(folder, "node", directory) == {}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["outside.yaml"]


@pytest.mark.parametrize("count", [2_000, 100_000], ids=["long", "too many values"])
async def test_long_manifest_keeps_nobody_waiting(
    manifests: Path, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    variables = "".join(f"    - {{name: A{number}, value: b}}\n" for number in range(count))
    container = f"  - name: c\n    image: none\n    env:\n{variables}"
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: long}}\nspec:\n  containers:\n{container}"
    (manifests / "long.yaml").write_text(text)

    reading = asyncio.create_task(read_static_pods(manifests, "node-1", manifests.parent))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns > 10
    assert [pod.name for pod in reading.result().values()] == ["long-node-1"] * (count == 2_000)
    assert ("more than 200000 values" in caplog.text) == (count > 2_000)


async def test_name_of_a_manifest_need_not_be_utf_8(manifests: Path, write: Any, tmp_path: Path) -> None:
    write("web")
    (manifests / "web.yaml").rename(manifests / os.fsdecode(b"\xff.yaml"))

    pods = await read_static_pods(manifests, "node-1", tmp_path)

    assert [pod.name for pod in pods.values()] == ["web-node-1"]


@pytest.mark.parametrize(("count", "content"), [(1_000, "a: b"), (20, f"a: [{'b, ' * 10_000}]")], ids=["many", "large"])
async def test_many_manifests_keep_nobody_waiting(manifests: Path, count: int, content: str) -> None:
    for number in range(count):
        (manifests / f"{number}.yaml").write_text(content)

    reading = asyncio.create_task(read_static_pods(manifests, "node-1", manifests.parent))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns > 5
    assert reading.result() == {}
