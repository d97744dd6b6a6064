"""Containers that really run, each in a sandbox of its own (`bubblewrap`).

Where no namespaces can be made for them they have files of their own and nothing else (`translated_files`).

The image of every container is the host, read-only. Output goes through a pipe to a file per container and attempt, as
it was written, without the runtime's time stamps; `PipedLog` rotates it as a kubelet does. A container dies with the
simulator, however that ends. One gap is bubblewrap's own (0.8): killed while it forks its sandbox, it leaves a process
that waits and does nothing.

Left out, and listed in the `limits` of a container that asked for it: OCI hooks (but see `container_setup`), groups,
RDT. Volumes of a pod are not mounted, its security contexts are not read.

The containers of a pod share a network namespace in which there is a loopback device and nothing else; with
``hostNetwork`` it is the host's.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final
from weakref import WeakValueDictionary

from .._internal import isolation
from .._internal.bounds import BoundProgram, Bounds
from .._internal.cgroups import memory_of_machine
from .._internal.file_tree import found_without_links
from ..devices.pod_devices import DeviceRunOptions
from ..model.clock import Clock
from ..model.errors import HostError
from ..model.pod import Container, Pod, PodUID
from ..model.quality_of_service import MEMORY, oom_score_adj
from ..node_tree import node_tree
from .bubblewrap import (
    Bind,
    HostImage,
    bubblewrap_program,
    file_arguments,
    is_run_by_root,
    placed,
    sandbox_arguments,
    staged,
)
from .container_runtime import init_error, refused_spec
from .container_setup import ContainerSetup, NodeHook, cdi_edits, no_hook, set_up
from .process_container import ContainerFiles, ProcessContainer
from .program import Program, program_of
from .translated_files import TranslatedFiles, check_containers, container_supervisor

__all__ = ["ProcessRuntime"]

_LOG: Final = logging.getLogger(__name__)
_INIT: Final = "\n".join(
    [
        "import sys",
        "isolation = sys.modules['isolation'] = type(sys)('isolation')",
        f"exec({Path(isolation.__file__).read_text(encoding='utf-8')!r}, isolation.__dict__)",
        f"exec({Path(__file__).with_name('_container_init.py').read_text(encoding='utf-8')!r})",
    ]
)
_READY: Final = b"ready\n"
_HOSTNAME_MAX: Final = 63
_Start = tuple[list[str], list[str], tuple[int, ...]]
"""The argv before that of the container's first program, its words about mounts, and descriptors for both."""


class ProcessRuntime:
    """The container runtime of one node.

    Args:
        folder: The node's folder; paths of plugins and CDI specs are looked for in it first, see `container_setup`.
        logs: Where in that folder the containers' output goes, ``<namespace>_<pod>_<uid>/<container>/<attempt>.log``.
        clock: What the grace of `ProcessContainer.stop` is counted in.
        hook: What the node adds to each container by itself.
        image: The root file system of the containers.
        memory_bytes: What the node says that it has.
    """

    def __init__(
        self,
        folder: Path,
        logs: Path,
        clock: Clock,
        hook: NodeHook = no_hook,
        image: HostImage | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        # Resolved now, as nobody else has written there yet: what is a link later is not followed.
        self._folder = folder.resolve()
        self._logs = self._folder / logs.relative_to(folder)
        self._clock = clock
        self._hook = hook
        self._image = image or HostImage.of_this_host()
        self._memory_bytes = memory_bytes or memory_of_machine()
        self._containers: list[ProcessContainer] = []
        self._networks: WeakValueDictionary[PodUID, PodNetwork] = WeakValueDictionary()

    async def start(
        self, pod: Pod, container: Container, options: DeviceRunOptions, attempt: int = 0
    ) -> ProcessContainer:
        """Start a container and return when its program has taken over; see `container_runtime.ContainerRuntime`."""
        program = program_of(pod, container, options.envs)
        if not program.argv:
            raise refused_spec("no command specified")
        files = ContainerFiles.create(self._logs, pod, container, attempt)
        env = {"PATH": self._image.search_path, "HOSTNAME": _hostname(pod), **program.env}
        edits = await asyncio.to_thread(cdi_edits, self._folder, options)
        setup = set_up(self._folder, env, options, edits, self._hook, files.log.parent)
        for limit in setup.limits:
            _LOG.warning("pod %s: container %s: %s", pod.key, container.name, limit)
        setup.env.setdefault("HOME", "/root")
        launch = asyncio.ensure_future(self._launch(pod, self._bounds(pod, container), program, setup, files))
        try:
            await asyncio.wait([launch])
        except asyncio.CancelledError:
            await asyncio.wait([launch])
            if launch.exception() is None:
                await launch.result().stop(0)
            raise
        return launch.result()

    async def reboot(self) -> None:
        """End all containers at once."""
        running, self._containers = self._containers, []
        await asyncio.gather(*(container.cut() for container in running))

    def _bounds(self, pod: Pod, container: Container) -> Bounds:
        score = oom_score_adj(pod, container, self._memory_bytes)
        memory_bytes = container.limits.get(MEMORY) or None
        return Bounds(self._folder, memory_bytes, oom_score_adj=score, is_data_limited=True)

    async def _launch(
        self, pod: Pod, bounds: Bounds, program: Program, setup: ContainerSetup, files: ContainerFiles
    ) -> ProcessContainer:
        bound = BoundProgram(bounds)
        try:
            return await self._launch_bound(bound, pod, program, setup, files)
        except BaseException:
            bound.end()
            raise

    async def _launch_bound(
        self, bound: BoundProgram, pod: Pod, program: Program, setup: ContainerSetup, files: ContainerFiles
    ) -> ProcessContainer:
        supervisor = await asyncio.to_thread(container_supervisor)
        network = self._networks.get(pod.uid)
        output = files.open_log()
        root = None
        try:
            root = TranslatedFiles(self._folder, supervisor) if supervisor else None
            process, init_pid, said = await self._spawn(bound, pod, program, setup, files, output.pipe, network, root)
            output.pipe.close()
            if said == _READY:
                if root is None and network is None and not pod.spec.get("hostNetwork"):
                    network = self._kept_network(pod, init_pid)
                container = ProcessContainer(
                    process, init_pid, program, files, output, setup.limits, self._clock, bound, network, root
                )
                self._containers = [*(other for other in self._containers if other.is_running), container]
                return container
            await process.wait()
        except BaseException:
            await output.close()
            if root:
                root.remove()
            raise
        await output.close()
        if root:
            root.remove()
        if bound.has_lost_memory():
            raise init_error("container init was OOM-killed (memory limit too low?)", about="")
        if said.startswith(_READY):
            raise init_error(said.removeprefix(_READY).decode(errors="replace"))
        await asyncio.to_thread(check_containers)
        raise init_error(files.end_of_log().strip().removeprefix("bwrap: "))

    async def _spawn(
        self,
        bound: BoundProgram,
        pod: Pod,
        program: Program,
        setup: ContainerSetup,
        files: ContainerFiles,
        output: BinaryIO,
        network: PodNetwork | None,
        root: TranslatedFiles | None,
    ) -> tuple[asyncio.subprocess.Process, int, bytes]:
        """Start the sandbox: its process, the id of its process 1, and what the container's first program said."""
        own_files = [Bind(str(files.message), program.termination_message_path), *self._own_sys()]
        shown = placed(self._image, [*own_files, *setup.binds.values()])
        if any("\0" in f"{place}{bind.source}" for place, bind in shown.items()):
            raise refused_spec("a path has a NUL character in it")
        if "" in setup.env:
            # Source: libcontainer/env.go, ``prepareEnv`` (runc v1.4.0).
            raise init_error("invalid environment variable: name cannot be empty")
        inside = [f"{name}={value}" for name, value in setup.env.items()]
        with ExitStack() as held:
            async with _Pipe() as info, _Pipe() as status:
                if root:
                    argv, mounts, handles = await asyncio.to_thread(self._translated, root, shown, held)
                else:
                    argv, mounts, handles = self._separated(pod, shown, network, info.write_end, held)
                argv += [self._image.python, "-I", "-S", "-c", _INIT, str(status.write_end)]
                argv += [program.working_dir, str(len(inside)), *inside, str(len(mounts)), *mounts, *program.argv]
                process = await _run(bound.argv(argv), output, (*handles, status.write_end))
                answer = await info.read()
                said = await status.read()
        return process, json.loads(answer)["child-pid"] if answer else process.pid, said

    def _separated(
        self, pod: Pod, shown: Mapping[str, Bind], network: PodNetwork | None, info: int, held: ExitStack
    ) -> _Start:
        """How a program begins in a sandbox of bubblewrap, which says the id of its process 1 to the pipe `info`."""
        arguments = self._arguments(pod, shown, network)
        options = held.enter_context(_options_file(arguments)).fileno()
        argv = [*network.entering()] if network else []
        argv += [bubblewrap_program(), "--args", str(options), "--info-fd", str(info), "--"]
        mounts = [*self._made(arguments), *self._mounts(shown, held)]
        return argv, mounts, (options, info, *(network.handles if network else ()))

    def _translated(self, root: TranslatedFiles, shown: Mapping[str, Bind], held: ExitStack) -> _Start:
        """The same under a supervisor."""
        root.add(file_arguments(self._image, shown))
        root.show(shown, (self._folder, self._logs))
        table = root.table()
        held.callback(os.close, table)
        held.callback(root.close)
        return [*root.argv(table)], root.words(), (table, *root.descriptors)

    def _kept_network(self, pod: Pod, init_pid: int) -> PodNetwork | None:
        network = PodNetwork.of(init_pid)
        if network:
            self._networks[pod.uid] = network
        return network

    def _own_sys(self) -> Iterator[Bind]:
        with contextlib.suppress(OSError):
            yield Bind(str(node_tree(self._folder).real_path("/sys")), "/sys", is_read_only=True)

    def _arguments(self, pod: Pod, shown: Mapping[str, Bind], network: PodNetwork | None) -> list[str]:
        own_network = [] if network or pod.spec.get("hostNetwork") else ["--unshare-net"]
        return [*own_network, *sandbox_arguments(self._image, _hostname(pod), shown)]

    def _made(self, arguments: Sequence[str]) -> Iterator[str]:
        """The file systems that the sandbox makes, where it is root's; see `_container_init`."""
        if is_run_by_root():
            yield from ("=/", "=/dev")
            yield from (f"={place}" for option, place in pairwise(arguments) if option == "--tmpfs")

    def _mounts(self, shown: Mapping[str, Bind], held: ExitStack) -> Iterator[str]:
        """What is shown in a container, as its first program is told; `held` keeps the node's files what they are."""
        for number, (place, bind) in enumerate(shown.items()):
            source = Path(bind.source)
            if bind.is_link:
                yield from (f">{place}", bind.source)
            elif not any(source.is_relative_to(folder) for folder in (self._folder, self._logs)):
                yield from (f"-{place}", staged(number))
            else:
                try:
                    found = os.fstat(held.enter_context(found_without_links(source)))
                except OSError as error:
                    raise init_error(f'error mounting "{source}": {(error.strerror or str(error)).lower()}') from None
                yield from (f"+{place}", f"{found.st_dev}:{found.st_ino}:{staged(number)}")


class PodNetwork:
    """The network namespace of a pod, kept while a container of the pod is known."""

    def __init__(self, namespaces: Mapping[str, int]) -> None:
        self._namespaces = namespaces
        for handle in self.handles:
            weakref.finalize(self, os.close, handle)

    @property
    def handles(self) -> tuple[int, ...]:
        """Descriptors that `entering` needs."""
        return tuple(self._namespaces.values())

    @classmethod
    def of(cls, pid: int) -> PodNetwork | None:
        """That of a container; None where that has ended already, or other containers could not enter it."""
        found: dict[str, int] = {}
        # Who is not root may enter a network only by way of the user namespace that owns it.
        kinds = ("net",) if is_run_by_root() else ("user", "net")
        with contextlib.suppress(OSError):
            for kind in kinds if shutil.which("nsenter") else ():
                found[kind] = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        if len(found) == len(kinds):
            return cls(found)
        for handle in found.values():
            os.close(handle)
        return None

    def entering(self) -> Iterator[str]:
        """The first words of an argv whose program runs in it."""
        yield from (shutil.which("nsenter") or "nsenter", "--preserve-credentials")
        for kind, handle in self._namespaces.items():
            yield f"--{kind}=/proc/self/fd/{handle}"
        yield "--"


class _Pipe:
    """A pipe whose write end another process gets; `read` returns all that came once every writer has closed it."""

    async def __aenter__(self) -> _Pipe:
        read_end, self.write_end = os.pipe()
        self._is_open = True
        self._reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(read_end, "rb", buffering=0))
        return self

    async def read(self) -> bytes:
        self._close_write_end()
        return await self._reader.read()

    async def __aexit__(self, *_: object) -> None:
        self._close_write_end()
        self._transport.close()

    def _close_write_end(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self.write_end)


def _hostname(pod: Pod) -> str:
    """Source: kubelet/kubelet_pods.go, ``truncatePodHostnameIfNeeded`` (kubernetes v1.34.4)."""
    return pod.name[:_HOSTNAME_MAX].rstrip("-.")


def _options_file(arguments: Sequence[str]) -> BinaryIO:
    """A file in memory for ``--args``: a container that opens a full folder of the image has thousands of them."""
    file = os.fdopen(os.memfd_create("bwrap-args"), "w+b")
    file.write("\0".join(arguments).encode(errors="surrogateescape"))
    file.seek(0)
    return file


async def _run(argv: Sequence[str], output: BinaryIO, descriptors: Sequence[int]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={},
            pass_fds=descriptors,
        )
    except ValueError as error:
        raise init_error(str(error)) from None
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise init_error(f"exec {argv[0]}: argument list too long") from None
        await asyncio.to_thread(check_containers)
        raise HostError(f"cannot start a process for a container: {error.strerror}") from None
