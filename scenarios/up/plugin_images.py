"""Containers that are device plugins: where an image stands for a plugin, its container is that plugin's process.

The process runs as a plugin of the node does, with the node's paths and fake GPUs, and with the container's arguments
and environment as far as these reach nothing beyond the node (`plugin_command`). It finds the kubelet's folders, and
those of CDI, where its volumes show them, and nowhere else; other folders of the node it has anyway. Images of vendors
have more than one program, so a container whose ``command`` runs another one is the node's own runtime's, as are the
containers of all other images.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import dropwhile
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any, Final, get_args

from simkubelet.devices import DeviceRunOptions
from simkubelet.host import PipedLog
from simkubelet.kubelet import CONTAINER_LOGS
from simkubelet.model.clock import Clock
from simkubelet.model.errors import HostError, InputError
from simkubelet.model.pod import Container, Pod
from simkubelet.node_tree import DEVICE_PLUGINS, PLUGINS, PLUGINS_REGISTRY, POD_RESOURCES
from simkubelet.runtime import (
    ContainerFiles,
    ContainerHandle,
    ContainerRuntime,
    ContainerStartError,
    ExitStatus,
    StartFailure,
    container_manifest,
    expand,
    program_of,
    sub_path,
)

from ..backends.world.child import Child, Spawn
from ..backends.world.logs import exit_message
from ..backends.world.node import KUBELET, OF_A_POD, SimNode, is_of_a_pod
from ..backends.world.plugins import GivenByPod, plugin_command
from ..story.specs import Builtin, PluginSpec
from ..story.stub_spec import Serves
from ..trace.events import PluginExited, PluginStarted
from ..trace.trace import Record

BUNDLED_IMAGES: Final[Mapping[str, PluginSpec]] = {
    f"simkubelet/{name}": PluginSpec(name=name, builtin=name) for name in get_args(Builtin) if name != "stub"
}
"""Image, without a tag -> the bundled plugin; not the stub, which would need commands."""
STUB: Final = PluginSpec(name="stub", builtin="stub", serves=Serves(devices=tuple(f"device-{n}" for n in range(8))))
"""The stub of nodes that no story describes."""
_DEVICE_PLUGIN: Final = "device-plugin"
_SOCKETS: Final = tuple(f"{KUBELET}/{name}" for name in (DEVICE_PLUGINS, PLUGINS, PLUGINS_REGISTRY, POD_RESOURCES))
_LONGEST_WORD: Final = 128 * 1024
"""Bytes. Source: Linux v6.1, include/uapi/linux/binfmts.h, ``MAX_ARG_STRLEN``."""


class PluginImages:
    """A node's container runtime in which some images are device plugins.

    Args:
        images: image -> plugin; one without a tag stands for all its tags.
        others: starts the containers of all other images.
        note: called with each container that has the image of a plugin and runs another program, and a sentence.
        trace: gets the starts and ends of the plugins, by the names of their pods.
        spawn: starts their processes.
        has_foreign: whether foreign programs are on the node that are none of these images.
    """

    def __init__(
        self,
        node: SimNode,
        images: Mapping[str, PluginSpec],
        others: ContainerRuntime,
        clock: Clock,
        note: Callable[[Pod, Container, str], None],
        trace: Record,
        spawn: Spawn,
        *,
        has_foreign: bool = False,
    ) -> None:
        self._note = note
        self._has_foreign = has_foreign or any(one.builtin is None for one in images.values())
        self._trace = trace
        self._spawn = spawn
        self._node = node
        self._images = images
        self._others = others
        self._clock = clock
        self._running: list[_PluginContainer] = []

    async def start(
        self, pod: Pod, container: Container, options: DeviceRunOptions, attempt: int = 0
    ) -> ContainerHandle:
        """See `ContainerRuntime`."""
        manifest = container_manifest(pod, container)
        spec = self._plugin(str(manifest.get("image") or ""))
        arguments = None if spec is None else _arguments(spec, manifest)
        if spec is not None and arguments is None:
            self._note(pod, container, _not_the_plugin(spec, manifest))
        if spec is None or arguments is None:
            return await self._others.start(pod, container, options, attempt)
        env = program_of(pod, container, options.envs).env
        args = tuple(expand(text, env) for text in arguments)
        files = ContainerFiles.create(self._node.directory / CONTAINER_LOGS, pod, container, attempt)
        own = f"{pod.uid}-{container.name}-{attempt}"
        given = GivenByPod(args, env, own, dict(_shown(pod, manifest, env)))
        try:
            command = plugin_command(self._node, spec, None, is_beside_foreign=self._has_foreign, given=given)
            _check_words((*args, *env.values()), command.argv)
            command = replace(command, log=files.log, takes_commands=False)
            log = command.open_log()
        except (InputError, HostError) as error:
            raise ContainerStartError(StartFailure.RUN, str(error)) from None
        try:
            process = await self._spawn(command, log.pipe)
        except BaseException as error:
            await log.close()
            self._node.remove_container(own)
            if isinstance(error, InputError | HostError | OSError):
                raise ContainerStartError(StartFailure.RUN, str(error)) from None
            raise
        log.pipe.close()

        def ended(status: int) -> None:
            self._node.remove_container(own)
            said = exit_message(log.path, log.begin, is_rotated=log.is_rotated)
            self._trace.append(PluginExited(pod.key, self._node.name, status, said))

        handle = _PluginContainer(process, log, self._clock, ended)
        self._trace.append(PluginStarted(pod.key, self._node.name, attempt + 1))
        self._running = [*(other for other in self._running if other.is_running), handle]
        return handle

    async def reboot(self) -> None:
        """See `ContainerRuntime`."""
        running, self._running = self._running, []
        await asyncio.gather(self._others.reboot(), *(container.cut() for container in running))

    def _plugin(self, image: str) -> PluginSpec | None:
        name = image.partition("@")[0]
        path, slash, last = name.rpartition("/")
        return self._images.get(image) or self._images.get(name) or self._images.get(path + slash + last.split(":")[0])


def _arguments(spec: PluginSpec, manifest: Mapping[str, Any]) -> list[str] | None:
    """What a container gives the plugin of its image; None where its ``command`` runs another program.

    A command runs the plugin where it begins with words of the plugin's own command line, or with a file that calls
    itself a device plugin; what follows them are arguments.
    """
    command, args = list(manifest.get("command") or ()), list(manifest.get("args") or ())
    own = {_file_name(word) for word in spec.command or ("simkubelet", "plugin", spec.name)}
    rest = list(dropwhile(lambda word: _file_name(word) in own, command))
    if command and _DEVICE_PLUGIN in _file_name(command[0]):
        rest = command[1:]
    return [*rest, *args] if len(rest) < len(command) or not command else None


def _shown(pod: Pod, manifest: Mapping[str, Any], env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Where a container sees which of the folders that it has to mount, alone or with a folder above them."""
    volumes = {one["name"]: one["hostPath"]["path"] for one in pod.spec.get("volumes") or () if one.get("hostPath")}
    for mount in manifest.get("volumeMounts") or ():
        if (path := volumes.get(mount["name"])) is None:
            continue
        shown = _joined(path, sub_path(mount, env))
        if is_of_a_pod(shown):
            yield _joined(mount["mountPath"]), shown
        for folder in (*OF_A_POD, *_SOCKETS):
            if folder != shown and PurePosixPath(folder).is_relative_to(shown):
                yield _joined(mount["mountPath"], str(PurePosixPath(folder).relative_to(shown))), folder


def _joined(path: str, part: str = "") -> str:
    # Two slashes at the beginning are a path of their own to `normpath`.
    joined = "/" + normpath(f"{path}/{part}").lstrip("/")
    return joined.removeprefix("/var") if PurePosixPath(joined).is_relative_to("/var/run") else joined


def _file_name(word: str) -> str:
    return PurePosixPath(word).name


def _check_words(given: Iterable[str], argv: Iterable[str]) -> None:
    """Refuse what no process can be given.

    Raises:
        InputError: There is such a word.
    """
    try:
        is_valid = all(b"\0" not in os.fsencode(word) for word in given)
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise InputError("an argument or a variable has a character that no process can be given; remove it")
    if any(len(os.fsencode(word)) >= _LONGEST_WORD for word in argv):
        raise InputError(f"arguments and variables are too long together; use fewer than {_LONGEST_WORD} bytes")


def _not_the_plugin(spec: PluginSpec, manifest: Mapping[str, Any]) -> str:
    plugin = shlex.join(spec.command) if spec.command else f"the plugin {spec.name}"
    return (
        f"image {manifest['image']} stands for {plugin}, and this container runs {manifest['command'][0]}: it is "
        "started as a container of any other image; leave 'command' out, or name the plugin's program in it"
    )


class _PluginContainer:
    """A container that is a plugin's process; `ended` is called once with the process's status."""

    def __init__(self, process: Child, log: PipedLog, clock: Clock, ended: Callable[[int], None]) -> None:
        self._process = process
        self._log = log
        self._end = asyncio.ensure_future(process.wait())
        self._clock = clock
        self._is_cut = False
        self._ended: Callable[[int], None] | None = ended

    @property
    def is_running(self) -> bool:
        return not self._end.done()

    async def wait(self) -> ExitStatus:
        """See `ContainerHandle`."""
        status = await asyncio.shield(self._end)
        await self._process.kill_all()
        await self._log.close()
        if (ended := self._ended) is not None:
            self._ended = None
            ended(status)
        if self._is_cut:
            return ExitStatus.power_cut()
        return ExitStatus.of(status if status >= 0 else 128 - status)

    async def stop(self, grace_s: float) -> ExitStatus:
        """See `ContainerHandle`."""
        if grace_s > 0:
            await self._process.terminate_all()
            grace = asyncio.ensure_future(self._clock.sleep(grace_s))
            try:
                await asyncio.wait([self._end, grace], return_when=asyncio.FIRST_COMPLETED)
            finally:
                grace.cancel()
        self._process.kill()
        return await self.wait()

    async def cut(self) -> None:
        """End it as a power cut does."""
        self._is_cut = self.is_running
        self._process.kill()
        await self.wait()
