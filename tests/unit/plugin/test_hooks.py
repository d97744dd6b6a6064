"""The methods of a plugin's class: which names are refused, and whether those of documented plugins are called."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from plugin.errors import UsageError
from plugin.framework import DevicePlugin, RestartPolicy, run_plugins
from simkubelet.apis import deviceplugin as api
from tests.support.doc_pages import PAGES, Block, blocks
from tests.support.patience import LIMIT_S

from .scripted_plugin import ScriptedPlugin

DOCUMENTED = [
    block for page in PAGES for block in blocks(page) if block.language == "python" and "(DevicePlugin)" in block.text
]


@pytest.mark.parametrize(
    ("name", "hook"),
    [
        ("life", "lifespan"),
        ("life_span", "lifespan"),
        ("prestart", "pre_start"),
        ("pre_start_container", "pre_start"),
        ("preferred_allocation", "preferred"),
        ("get_preferred_allocation", "preferred"),
        ("GetPreferredAllocation", "preferred"),
        ("ListAndWatch", "devices"),
        ("get_device_plugin_options", "options"),
        ("on_stream_ended", "stream_ended"),
        ("alocate", "allocate"),
    ],
)
async def test_method_that_looks_like_a_hook_is_refused(kubelet_dir: Path, name: str, hook: str) -> None:
    def method(self: DevicePlugin) -> None:
        raise AssertionError

    kind = type("Seats", (ScriptedPlugin,), {name: method})

    with pytest.raises(UsageError) as refused:
        await run_plugins(lambda: [kind()], kubelet_dir, RestartPolicy())

    line = inspect.getsourcelines(method)[1]
    assert str(refused.value) == (
        f"{__file__}:{line}: nothing calls Seats.{name}: is it to be '{hook}'? begin the names of methods of your own "
        "with an underscore"
    )


@pytest.mark.parametrize("name", ["_life", "device", "device_of", "read_health", "reload", "watch", "close"])
async def test_method_of_the_plugins_own_is_no_hook(kubelet: Any, kubelet_dir: Path, name: str) -> None:
    kind = type("Seats", (ScriptedPlugin,), {name: lambda self: None})
    task = asyncio.create_task(run_plugins(lambda: [kind()], kubelet_dir, RestartPolicy()))

    await kubelet.registration()

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def recorded(kind: type[DevicePlugin], called: set[str]) -> type[DevicePlugin]:
    """The class with methods that add their names to `called`."""

    def recording(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            called.add(name)
            return method(*arguments, **named)

        return call

    return type(kind.__name__, (kind,), {name: recording(name, method) for name, method in methods(kind)})


def methods(kind: type[DevicePlugin]) -> Iterator[tuple[str, Callable[..., Any]]]:
    return ((name, method) for name, method in vars(kind).items() if inspect.isfunction(method))


def documented_in(block: Block, folder: Path) -> type[DevicePlugin]:
    """The plugin of a block, with the files of a node in a folder."""
    names: dict[str, Any] = {"__name__": "documented"}
    exec(compile(block.text, block.place, "exec"), names)  # noqa: S102  # the project's own page
    if "FOLDER" in names:
        names["FOLDER"] = folder
    (kind,) = [one for one in names.values() if isinstance(one, type) and DevicePlugin in one.__bases__]
    return kind


@pytest.mark.parametrize("block", DOCUMENTED, ids=[block.place for block in DOCUMENTED])
async def test_every_method_of_a_documented_plugin_is_called(
    kubelet: Any, kubelet_dir: Path, tmp_path: Path, block: Block
) -> None:
    for seat in ("aisle", "middle"):
        (tmp_path / seat).touch()
    kind, called = documented_in(block, tmp_path), set[str]()
    task = asyncio.create_task(run_plugins(lambda: [recorded(kind, called)()], kubelet_dir, RestartPolicy()))

    request = await kubelet.registration()
    await call_everything(kubelet, request.endpoint)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert called == {name for name, _ in methods(kind)}


async def call_everything(kubelet: Any, endpoint: str) -> None:
    """Each call of a kubelet, as the plugin's options ask for it, about a device that can be given."""
    async with kubelet.plugin(endpoint) as plugin, asyncio.timeout(LIMIT_S):
        options = await plugin.GetDevicePluginOptions(api.Empty())
        stream = plugin.ListAndWatch(api.Empty())
        ids = [device.ID for device in (await stream.read()).devices if device.health == api.HEALTHY]
        if options.get_preferred_allocation_available:
            await plugin.GetPreferredAllocation(preference(ids))
        await plugin.Allocate(
            api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids[:1])])
        )
        if options.pre_start_required:
            await plugin.PreStartContainer(api.PreStartContainerRequest(devices_ids=ids[:1]))
        await stream.cancel()


def preference(ids: Sequence[str]) -> api.PreferredAllocationRequest:
    asked = api.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=1)
    return api.PreferredAllocationRequest(container_requests=[asked])


def test_pages_document_plugins() -> None:
    assert {block.place.partition(":")[0] for block in DOCUMENTED} >= {"docs/api.md", "docs/write-a-plugin.md"}
