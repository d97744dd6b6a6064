"""One node of a kind cluster: a docker container with systemd, a kubelet, containerd, and our agent beside them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from simkubelet.host import module_name
from simkubelet.model.errors import HostError, InputError

from .docker import CommandError, output_of, process
from .image import PluginImage

PLACE: Final = "/var/lib/simkubelet"
PLUGIN_FOLDER: Final = "/var/lib/kubelet/device-plugins"
TAPS: Final = f"{PLACE}/taps"
"""Below it each plugin with a tap has what it takes for the plugin folder, by its name."""
CRI: Final = f"{PLACE}/cri.sock"
"""Where the agent stands between the kubelet and containerd."""
_CTR: Final = ("ctr", "--namespace=k8s.io")
_DROP_IN: Final = "/run/systemd/system/kubelet.service.d/simkubelet.conf"
_RESUME_RUNTIME: Final = ("systemctl", "kill", "--kill-whom=main", "--signal=CONT", "containerd")
_AGENT: Final = "simkubelet-agent"
REMOVE_AGENT: Final = f"{{ ctr -n k8s.io task rm -f {_AGENT}; ctr -n k8s.io container rm {_AGENT}; }} >/dev/null 2>&1"
"""A shell command that removes an agent, that of a killed run too."""
_LOOK_AGAIN_S: Final = 0.1
_ANSWER_WITHIN_S: Final = 30.0
_READY_WITHIN_S: Final = 60.0
_BOOT_WITHIN_S: Final = 120.0
_COPY_WITHIN_S: Final = 120.0
UP_WITHIN_S: Final = 90.0
"""How long a kubelet may take to serve its socket, and an API server to answer, after a start."""

OnReport = Callable[[Mapping[str, Any]], None]
"""Takes what the agent reports unasked, and ``{"journal": "…"}`` for each line of the kubelet's log."""


class KindNode:
    """Commands to the node's container, and the two processes that report on it, from `watch` to `close`.

    Args:
        name: The story's name of the node.
        container: Its container's, which is also its name in the cluster.
        image: Of the agent.
        on_report: Called with what happens, in the event loop.
    """

    def __init__(self, name: str, container: str, image: PluginImage, on_report: OnReport) -> None:
        self.name = name
        self.container = container
        self._image = image
        self._on_report = on_report
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._agent: asyncio.subprocess.Process | None = None
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._asked = 0
        self._ready = asyncio.Event()

    @property
    def is_lost(self) -> bool:
        """Whether the agent has ended though nobody ended it."""
        return any(task.done() for task in self._tasks)

    async def is_running(self) -> bool:
        """Whether its container runs.

        Raises:
            HostError: docker does not answer.
        """
        said = await output_of("docker", "inspect", "--format={{.State.Running}}", self.container)
        return said.strip() == "true"

    async def run(self, *argv: str, given: bytes | None = None, within_s: float = 60.0) -> str:
        """Run a command on the node; what it wrote.

        Raises:
            HostError: It fails.
        """
        interactive = ("-i",) if given is not None else ()
        return await output_of("docker", "exec", *interactive, self.container, *argv, given=given, within_s=within_s)

    async def systemctl(self, verb: str) -> None:
        """``start``, ``stop`` or ``restart`` the kubelet."""
        await self.run("systemctl", verb, "kubelet")

    async def pause_runtime(self) -> None:
        """Pause containerd; containers continue to run."""
        await self.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", "containerd")

    async def resume_runtime(self) -> None:
        """Let containerd go on; nothing happens to one that does."""
        await self.run(*_RESUME_RUNTIME)

    async def resume(self) -> None:
        """Let containerd and the kubelet run; nothing happens to those that do."""
        await self.run("sh", "-c", f"{' '.join(_RESUME_RUNTIME)}; systemctl start kubelet")

    async def start_kubelet(self) -> None:
        """Start the kubelet, and wait until plugins can register with it.

        Raises:
            HostError: It does not come up.
        """
        serves = f"until test -S {PLUGIN_FOLDER}/kubelet.sock; do sleep {_LOOK_AGAIN_S}; done"
        start = f"systemctl start kubelet && timeout {UP_WITHIN_S:g} sh -c '{serves}'"
        try:
            await self.run("sh", "-c", start, within_s=UP_WITHIN_S + _ANSWER_WITHIN_S)
        except CommandError as error:
            raise HostError(f"node {self.container}: the kubelet does not come up: {error}") from None

    async def watch(self) -> None:
        """Start the agent and follow the kubelet's log.

        Raises:
            HostError: The agent does not come up.
        """
        self._ready.clear()
        journal = ("docker", "exec", self.container, "journalctl", "-u", "kubelet", "-f", "-n", "0", "-o", "cat")
        following = await self._stack.enter_async_context(process(*journal))
        self._agent = await self._stack.enter_async_context(process(*self._agent_argv()))
        self._tasks = [
            asyncio.create_task(self._follow(following)),
            asyncio.create_task(self._listen(self._agent)),
        ]
        ready = asyncio.create_task(self._ready.wait())
        done, _ = await asyncio.wait(
            [ready, self._tasks[1]], timeout=_READY_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
        )
        ready.cancel()
        if not self._ready.is_set():
            said = await self._exit_message() if self._tasks[1] in done else "it says nothing"
            raise HostError(f"node {self.container}: the agent does not start: {said}")

    async def end_watch(self) -> None:
        """End what `watch` began; the agent's container may still be there."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._agent = None
        await self._stack.aclose()

    async def close(self) -> None:
        """End what `watch` began, and remove the agent's container; may be called twice."""
        is_watched = self._agent is not None
        await self.end_watch()
        if is_watched:
            with contextlib.suppress(HostError):
                await self.run("sh", "-c", REMOVE_AGENT)

    async def release(self) -> None:
        """Let systemd start a kubelet that ends again, as before the first `watch`; start it.

        Raises:
            HostError: The node does not run.
        """
        restarts_again = f"rm {_DROP_IN} && systemctl daemon-reload"
        await self.run("sh", "-c", f"[ ! -e {_DROP_IN} ] || {{ {restarts_again}; }}; systemctl start kubelet")

    async def ask(self, do: str, **given: Any) -> Any:
        """Let the agent do something; see `agent.Agent`.

        Raises:
            InputError: It cannot, with what was given.
            HostError: It does not answer.
        """
        if self._agent is None or self._agent.stdin is None:
            raise HostError(f"node {self.container}: the agent is gone")
        self._asked += 1
        number, answer = self._asked, asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self._agent.stdin.write(json.dumps({"number": number, "do": do, "with": given}).encode() + b"\n")
            await self._agent.stdin.drain()
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                return await answer
        except (TimeoutError, ConnectionError):
            raise HostError(f"node {self.container}: the agent does not answer to {do}") from None
        finally:
            del self._answers[number]

    async def reboot(self) -> None:
        """Kill every process of the node and start it again, as a power cut does.

        Raises:
            HostError: It does not come back.
        """
        await self.close()
        await output_of("docker", "kill", self.container)
        await output_of("docker", "start", self.container)
        await self._wait_for("systemctl is-active --quiet containerd", _BOOT_WITHIN_S, "containerd does not start")

    async def put(self, archive: bytes) -> None:
        """Unpack a tar archive at the node's root.

        Raises:
            HostError: docker fails.
        """
        await output_of("docker", "cp", "-", f"{self.container}:/", given=archive, within_s=_COPY_WITHIN_S)

    async def images(self) -> list[str]:
        """Full names of the images that containerd has."""
        return (await self.run(*_CTR, "images", "list", "-q")).split()

    async def load(self, archive: bytes) -> None:
        """Give containerd the images of an archive.

        Raises:
            HostError: It does not take them.
        """
        await self.run(*_CTR, "images", "import", "-", given=archive, within_s=_COPY_WITHIN_S)

    async def _wait_for(self, condition: str, within_s: float, otherwise: str) -> None:
        async def holds() -> bool:
            try:
                await self.run("sh", "-c", condition)
            except CommandError:
                return False
            return True

        await until(holds, within_s, f"node {self.container}: {otherwise}")

    def _agent_argv(self) -> tuple[str, ...]:
        env = [f"--env={key}={value}" for key, value in self._image.environment.items()]
        mounts = [
            "--mount=type=bind,src=/,dst=/host,options=rbind:rw",
            f"--mount=type=bind,src={PLACE},dst={PLACE},options=rbind:rw",
            f"--mount=type=bind,src={PLUGIN_FOLDER},dst={PLUGIN_FOLDER},options=rbind:rw",
        ]
        run = [*_CTR, "run", "--rm", "--net-host", "--with-ns=pid:/proc/1/ns/pid", "--label=simkubelet=agent"]
        module = f"{module_name('scenarios')}.backends.kind.agent"
        program = [self._image.python, "-m", module]
        # A kubelet that crashes stays so until the story starts it.
        write = f"mkdir -p {PurePosixPath(_DROP_IN).parent} && printf '[Service]\\nRestart=no\\n' >{_DROP_IN}"
        stays_down = f"[ -e {_DROP_IN} ] || {{ {write} && systemctl daemon-reload; }}"
        start = f'mkdir -p {PLACE} {PLUGIN_FOLDER} && {{ {stays_down}; }} && exec "$@"'
        inside = [
            "sh",
            "-c",
            start,
            "sh",
            *run,
            "--cap-add=CAP_SYS_PTRACE",
            *env,
            *mounts,
            self._image.reference,
            _AGENT,
            *program,
        ]
        return ("docker", "exec", "-i", self.container, *inside)

    async def _exit_message(self) -> str:
        if self._agent is None or self._agent.stderr is None:
            return ""
        lines = (await self._agent.stderr.read()).decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")

    async def _follow(self, journal: asyncio.subprocess.Process) -> None:
        assert journal.stdout is not None  # noqa: S101  # a pipe was asked for
        while line := await journal.stdout.readline():
            self._on_report({"journal": line.decode(errors="replace").rstrip("\n")})

    async def _listen(self, agent: asyncio.subprocess.Process) -> None:
        assert agent.stdout is not None  # noqa: S101  # a pipe was asked for
        while line := await agent.stdout.readline():
            report = json.loads(line)
            if "answer" in report:
                self._answered(report)
            elif "ready" in report:
                self._ready.set()
            else:
                self._on_report(report)

    def _answered(self, report: Mapping[str, Any]) -> None:
        answer = self._answers.get(report["answer"])
        if answer is None or answer.done():
            return
        if "error" in report:
            answer.set_exception(InputError(f"{self.name}: {report['error']}"))
        else:
            answer.set_result(report["value"])


_CHECK_AGAIN_S: Final = 0.2


async def until(condition: Callable[[], Awaitable[bool]], within_s: float, complaint: str | Callable[[], str]) -> None:
    """Check a condition several times a second; return as soon as it holds.

    Args:
        condition: What to check.
        within_s: How long to wait for it; it is checked at least once.
        complaint: What does not happen, or a function that says it, called when the time is over.

    Raises:
        HostError: It does not hold in time: the complaint, and the time.
    """
    limit = time.monotonic() + within_s
    while not await condition():
        if time.monotonic() > limit:
            raise HostError(f"{complaint if isinstance(complaint, str) else complaint()} within {within_s:g} s")
        await asyncio.sleep(_CHECK_AGAIN_S)
