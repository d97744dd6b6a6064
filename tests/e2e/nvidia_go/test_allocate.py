"""Every answer to Allocate and GetPreferredAllocation, beside NVIDIA's own plugin.

Fed in: a table of settings and requests; observed: the answers, byte for byte. Where the original is random, in the
order of several GPUs and in the name of an annotation, the answers are put into one order first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fakegpu import Machine
from simkubelet.apis import deviceplugin as api
from tests.support.nvidia_sides import Answer, NvidiaNode, Refusal, SidePlugin

pytestmark = pytest.mark.nvidia_go

_SHARED = "version: v1\nsharing: {timeSlicing: {%sresources: [{name: nvidia.com/gpu, replicas: 3}]}}\n"
_BY_INDEX = "--device-id-strategy=index"
_ANNOTATION = "nvidia-device-plugin_"


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NvidiaNode]:
    """A node with four GPUs."""
    machine = Machine.create(tmp_path_factory.mktemp("gpus") / "machine", "t4", 4, seed="allocate")
    with NvidiaNode(machine) as node:
        yield node


@pytest.fixture(scope="module")
def mig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NvidiaNode]:
    """A node with a GPU in MIG mode and another without."""
    machine = Machine.create(tmp_path_factory.mktemp("mig") / "machine", "h100-80gb", 2, seed="allocate")
    machine.mig(0).create("1g.10gb", "1g.10gb", "3g.40gb")
    with NvidiaNode(machine) as node:
        yield node


def _answered(plugin: SidePlugin, requests: Sequence[Sequence[int]], resource: str) -> list[Any]:
    """What the plugin answers when asked for devices by their places in the sorted list of ids; -1 is unknown."""
    ids = [device["ID"] for device in plugin.list_and_watch(resource).next()]
    named = [["unknown" if number < 0 else ids[number] for number in request] for request in requests]
    answers: list[Any] = [_told(plugin, containers, resource) for containers in ([], named, *([one] for one in named))]
    return [ids, *answers]


def _told(plugin: SidePlugin, containers: list[list[str]], resource: str) -> bytes | Refusal | list[bytes]:
    refusal = plugin.allocate(*containers, resource=resource)
    if isinstance(refusal, Refusal):
        return refusal
    answer = api.AllocateResponse.FromString(plugin.allocate_bytes(*containers, resource=resource))
    for container in answer.container_responses:
        _in_one_order(container)
    return answer.SerializeToString(deterministic=True)


def _in_one_order(container: api.ContainerAllocateResponse) -> None:
    names = container.envs.get("NVIDIA_VISIBLE_DEVICES")
    if names is not None:
        container.envs["NVIDIA_VISIBLE_DEVICES"] = ",".join(sorted(names.split(",")))
    for key, value in list(container.annotations.items()):
        prefix, name, unique = key.partition(_ANNOTATION)
        assert name, key
        assert len(unique) == len("00000000-0000-0000-0000-000000000000"), key
        del container.annotations[key]
        container.annotations[prefix + name] = ",".join(sorted(value.split(",")))
    for parts, key_of in (
        (container.cdi_devices, lambda device: device.name),
        (container.mounts, lambda mount: (mount.container_path, mount.host_path)),
        (container.devices, lambda device: device.container_path),
    ):
        sorted_parts = sorted(parts, key=key_of)  # type: ignore[arg-type]
        del parts[:]
        parts.extend(sorted_parts)  # type: ignore[arg-type]


_REQUESTS = ([0], [2, 0], [3, 1, 2, 0], [1, 1], [0, -1], [])


@pytest.mark.parametrize(
    ("args", "config"),
    [
        pytest.param((), None, id="defaults"),
        pytest.param((_BY_INDEX,), None, id="by index"),
        pytest.param(("--gds-enabled=false", "--mofed-enabled=false", "--gdrcopy-enabled=false"), None, id="no modes"),
        pytest.param(("--pass-device-specs",), None, id="device nodes"),
        pytest.param(("--pass-device-specs", "--nvidia-dev-root=/run/nvidia//driver/"), None, id="dev root"),
        pytest.param(("--pass-device-specs", "--nvidia-driver-root=/run/nvidia/driver"), None, id="driver root"),
        pytest.param(("--device-list-strategy=volume-mounts",), None, id="mounts"),
        pytest.param(("--device-list-strategy=volume-mounts", _BY_INDEX), None, id="mounts by index"),
        pytest.param(("--device-list-strategy=volume-mounts,envvar", "--pass-device-specs"), None, id="both"),
        pytest.param(("--device-list-strategy=envvar,envvar",), None, id="twice"),
        pytest.param(("--pass-device-specs",), _SHARED % "", id="replicas"),
        pytest.param((_BY_INDEX,), _SHARED % "", id="replicas by index"),
        pytest.param((), _SHARED % "failRequestsGreaterThanOne: true, ", id="one replica each"),
    ],
)
def test_gpus(nvidia_plugin: str, gpus: NvidiaNode, args: tuple[str, ...], config: str | None) -> None:
    ours, theirs = (
        _answered(plugin, _REQUESTS, "nvidia.com/gpu")
        for plugin in gpus.both(nvidia_plugin, *args, config=config)
        if plugin.registered()
    )

    assert ours == theirs


@pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu"])
@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("--pass-device-specs",), id="uuid"),
        pytest.param(("--pass-device-specs", "--device-list-strategy=envvar,volume-mounts", _BY_INDEX), id="index"),
    ],
)
def test_mig_devices(nvidia_plugin: str, mig: NvidiaNode, args: tuple[str, ...], resource: str) -> None:
    ours, theirs = (
        _answered(plugin, ([0], [-1], [0, 0]), resource)
        for plugin in mig.both(nvidia_plugin, "--mig-strategy=mixed", *args)
        if plugin.registered(3)
    )

    assert ours == theirs


def test_renamed_replicas_of_mig_devices(nvidia_plugin: str, mig: NvidiaNode) -> None:
    resource, sharing = "nvidia.com/mig-1g.10gb.shared", "renameByDefault: true, failRequestsGreaterThanOne: true"
    config = f"sharing: {{timeSlicing: {{{sharing}, resources: [{{name: mig-1g.10gb, replicas: 2}}]}}}}\n"

    ours, theirs = (
        _answered(plugin, ([0], [3], [0, 2]), resource)
        for plugin in mig.both(nvidia_plugin, "--mig-strategy=mixed", "--pass-device-specs", config=config)
        if plugin.registered(3)
    )

    assert ours == theirs


def _preferences(plugin: SidePlugin) -> list[Any]:
    """Answers that do not depend on chance: of equals the original takes any."""
    ids = [device["ID"] for device in plugin.list_and_watch().next()]
    by_gpu = {device.split("::")[0]: device for device in ids}
    first, second, *_ = (gpu for gpu in by_gpu)
    asked = [
        plugin.preferred(ids, [], len(ids) + 1),
        plugin.preferred(ids, [f"{first}::0"], 1),
        plugin.preferred(ids, [f"{first}::0", f"{first}::1"], 1),
        plugin.preferred(["unknown", f"{first}::2"], [], 1),
        plugin.preferred([], [], 0),
    ]
    least_used = plugin.preferred([f"{first}::0", f"{second}::0", f"{second}::1"], [], 1)
    return [*asked, _gpus_of(least_used), _gpus_of(plugin.preferred(ids, [], len(by_gpu)))]


def _gpus_of(preference: Answer | Refusal) -> list[str]:
    assert not isinstance(preference, Refusal)
    (container,) = preference["container_responses"]
    return sorted(device.split("::")[0] for device in container["deviceIDs"])


def test_replicas_are_spread_over_gpus(nvidia_plugin: str, gpus: NvidiaNode) -> None:
    ours, theirs = (
        _preferences(plugin) for plugin in gpus.both(nvidia_plugin, config=_SHARED % "") if plugin.registered()
    )

    assert ours == theirs


def test_imex_channel_that_is_missing_ends_the_plugin_where_it_is_required(
    nvidia_plugin: str, gpus: NvidiaNode
) -> None:
    ended = [
        (plugin.exit_status(), plugin.last_words)
        for plugin in gpus.both(nvidia_plugin, "--imex-channel-ids=0", "--imex-required")
    ]

    assert ended[0] == ended[1]
