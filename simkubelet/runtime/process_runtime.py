"""Containers that really run, each in a sandbox of its own (`bubblewrap`).

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
from .._internal.file_tree import found_without_links
from .._internal.open_files import with_first_limit
from .._internal.piped_log import PipedLog
from ..devices.pod_devices import DeviceRunOptions
from ..model.clock import Clock
from ..model.errors import HostError
from ..model.pod import Container, Pod, PodUID
from ..node_tree import node_tree
from .bubblewrap import (
    Bind,
    HostImage,
    bubblewrap_program,
    check_bubblewrap,
    is_run_by_root,
    placed,
    sandbox_arguments,
    staged,
)
from .container_runtime import init_error, refused_spec
from .container_setup import ContainerSetup, NodeHook, no_hook, set_up
from .process_container import ContainerFiles, ProcessContainer, tail
from .program import Program, program_of

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


class ProcessRuntime:
    """The container runtime of one node.

    Args:
        folder: The node's folder; paths of plugins and CDI specs are looked for in it first, see `container_setup`.
        logs: Where in that folder the containers' output goes, ``<namespace>_<pod>_<uid>/<container>/<attempt>.log``.
        clock: What the grace of `ProcessContainer.stop` is counted in.
        hook: What the node adds to each container by itself.
        image: The root file system of the containers.
    """

    def __init__(
        self, folder: Path, logs: Path, clock: Clock, hook: NodeHook = no_hook, image: HostImage | None = None
    ) -> None:
        # Resolved now, as nobody else has written there yet: what is a link later is not followed.
        self._folder = folder.resolve()
        self._logs = self._folder / logs.relative_to(folder)
        self._clock = clock
        self._hook = hook
        self._image = image or HostImage.of_this_host()
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
        setup = set_up(self._folder, env, options, self._hook, files.log.parent)
        for limit in setup.limits:
            _LOG.warning("pod %s: container %s: %s", pod.key, container.name, limit)
        setup.env.setdefault("HOME", "/root")
        launch = asyncio.ensure_future(self._launch(pod, program, setup, files))
        try:
            return await asyncio.shield(launch)
        except asyncio.CancelledError:
            await asyncio.wait([launch])
            if launch.exception() is None:
                await launch.result().stop(0)
            raise

    async def reboot(self) -> None:
        """End all containers at once."""
        running, self._containers = self._containers, []
        await asyncio.gather(*(container.cut() for container in running))

    async def _launch(
        self, pod: Pod, program: Program, setup: ContainerSetup, files: ContainerFiles
    ) -> ProcessContainer:
        network = self._networks.get(pod.uid)
        output = PipedLog.open(files.log)
        try:
            process, init_pid, said = await self._spawn(pod, program, setup, files, output.pipe, network)
            output.pipe.close()
            if said != _READY:
                await process.wait()
        except BaseException:
            await output.close()
            raise
        if said == _READY:
            if network is None and not pod.spec.get("hostNetwork") and (network := PodNetwork.of(init_pid)):
                self._networks[pod.uid] = network
            container = ProcessContainer(process, init_pid, program, files, output, setup.limits, self._clock, network)
            self._containers = [*(other for other in self._containers if other.is_running), container]
            return container
        await output.close()
        if said.startswith(_READY):
            raise init_error(said.removeprefix(_READY).decode(errors="replace"))
        await asyncio.to_thread(check_bubblewrap)
        raise init_error(tail(files.log).strip().removeprefix("bwrap: "))

    async def _spawn(
        self,
        pod: Pod,
        program: Program,
        setup: ContainerSetup,
        files: ContainerFiles,
        output: BinaryIO,
        network: PodNetwork | None,
    ) -> tuple[asyncio.subprocess.Process, int, bytes]:
        """Start the sandbox: its process, the id of its process 1, and what the container's first program said."""
        own_files = [Bind(str(files.message), program.termination_message_path), *self._own_sys()]
        shown = placed(self._image, [*own_files, *setup.binds.values()])
        arguments = self._arguments(pod, shown, network)
        inside = [f"{name}={value}" for name, value in setup.env.items()]
        handles = () if network is None else network.handles
        with ExitStack() as held:
            mounts = [*self._made(arguments), *self._mounts(shown, held)]
            if any("\0" in word for word in (*arguments, *mounts)):
                raise refused_spec("a path has a NUL character in it")
            async with _Pipe() as info, _Pipe() as status:
                with _options_file(arguments) as options:
                    argv = [*network.entering()] if network else []
                    argv += [bubblewrap_program(), "--args", str(options.fileno()), "--info-fd", str(info.write_end)]
                    argv += ["--", self._image.python, "-I", "-S", "-c", _INIT, str(status.write_end)]
                    argv += [program.working_dir, str(len(inside)), *inside, str(len(mounts)), *mounts, *program.argv]
                    process = await _run(argv, output, (options.fileno(), info.write_end, status.write_end, *handles))
                answer = await info.read()
                said = await status.read()
        return process, json.loads(answer)["child-pid"] if answer else 0, said

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
            *with_first_limit(argv),
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
        await asyncio.to_thread(check_bubblewrap)
        raise HostError(f"cannot start a process for a container: {error.strerror}") from None
