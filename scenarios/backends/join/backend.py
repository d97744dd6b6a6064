"""The backend ``join``: simulated nodes in the cluster of an API server elsewhere, whose scheduler binds the pods.

Kubelets, plugins, GPUs and node time are those of the simulator; API server, scheduler and controllers are the
cluster's. These take real time and see the nodes' dates, which a story lets leap.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from simkubelet.model.errors import HostError, InputError
from simkubelet.model.version import SUPPORTED, version
from simkubelet.remote import ApiClient, ApiError, ServerAccess, read_kubeconfig

from ...story.model import Scenario
from ...story.part import Action, Capability
from ...story.verbs.file_action import AddStaticPod
from ...story.verbs.pod_action import Apply
from ..sim.world import SimulatedWorld
from .cluster import JoinedCluster

FIXED_BY_THE_SERVER: Final = frozenset({Capability.API_FEATURE_GATES, Capability.API_VERSIONS})
"""What the API server of the cluster was started with: its feature gates and its versions."""
_IMAGE: Final = "story"
"""Of a container for which the story names none, as an API server asks for one."""


class JoinBackend(SimulatedWorld):
    """The world of one story, see `SimulatedWorld`, in another cluster.

    Args:
        session: The cluster.
    """

    def __init__(
        self,
        session: JoinSession,
        scenario: Scenario,
        directory: Path | None,
        keep: bool,
        plugin_commands: Mapping[str, tuple[str, ...]],
    ) -> None:
        super().__init__(scenario, directory, keep, plugin_commands)
        nodes = {node.name: version(node.kubernetes) for node in scenario.nodes}
        tools = (self._clock, self._observe, self._group)
        self._cluster = JoinedCluster(
            session.access, session.kubeconfig.absolute(), nodes, scenario.reads_slices, *tools
        )

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All but what the API server was started with."""
        return super().capabilities - FIXED_BY_THE_SERVER

    async def perform(self, action: Action) -> None:
        """Do one step; see `Backend`."""
        match action:
            case Apply():
                action = _with_images(action)
            case AddStaticPod():
                action = action.model_copy(update={"manifest": _with_images(action.manifest)})
        await super().perform(action)


@dataclass(frozen=True, slots=True)
class JoinSession:
    """A cluster that stories join one after the other.

    Attributes:
        kubernetes: The version of its API server, such as ``1.34.4``.
    """

    kubeconfig: Path
    access: ServerAccess
    kubernetes: str
    directory: Path | None
    keep: bool

    def world(self, scenario: Scenario, replacements: Mapping[str, Sequence[str]]) -> JoinBackend:
        """The world of one story, not yet entered; see `JoinBackend`."""
        commands = {name: tuple(argv) for name, argv in replacements.items()}
        return JoinBackend(self, scenario, self.directory, self.keep, commands)


@contextlib.asynccontextmanager
async def join_session(kubeconfig: Path, directory: Path | None, keep: bool) -> AsyncIterator[JoinSession]:
    """Take a cluster, for no other run of this machine until the end.

    Args:
        kubeconfig: Lets an administrator in.
        directory: Where the nodes' folders are made; the system's place for temporary files where it is None.
        keep: Whether these stay.

    Raises:
        InputError: The kubeconfig cannot be used, the server refuses its user or is of a version that is not
            simulated, or another run uses the cluster.
        HostError: The server does not answer.
    """
    access = read_kubeconfig(kubeconfig)
    # An abstract socket: its name is free again when the process has ended, however it did.
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0simkubelet-join-{sha256(access.url.encode()).hexdigest()}")
        except OSError:
            raise InputError(f"--kubeconfig: another run uses {access.url}; wait for it") from None
        yield JoinSession(kubeconfig, access, await _version_of(access), directory, keep)


async def _version_of(access: ServerAccess) -> str:
    """Return the version of an API server, such as ``1.34.4``.

    Raises:
        InputError: It refuses the user, or is of a minor that is not simulated.
        HostError: It does not answer.
    """
    released = await server_version(access)
    found = re.match(r"v(1\.[0-9]+)\.[0-9]+", released)
    if found is None or found[1] not in SUPPORTED:
        raise InputError(
            f"{access.url}: stories are played on Kubernetes {SUPPORTED[0]} to {SUPPORTED[-1]}, not {released}"
        )
    return found[0].removeprefix("v")


async def server_version(access: ServerAccess) -> str:
    """Return the release of an API server, such as ``v1.34.4``.

    Raises:
        InputError: It does not know the user of the kubeconfig.
        HostError: It does not answer.
    """
    try:
        async with ApiClient(access) as client:
            return str((await client.get("/version")).get("gitVersion"))
    except ApiError as error:
        if error.status in (401, 403):
            raise InputError(f"{access.url}: the API server refuses the kubeconfig's user: {error}") from None
        raise HostError(f"{access.url}: the API server does not answer: {error}; is the cluster up?") from None


def _with_images(pod: Apply) -> Apply:
    """Return a manifest in which each container has an image."""
    manifest = pod.manifest
    spec: dict[str, Any] = manifest["spec"]
    for kind in spec.keys() & {"containers", "initContainers"}:
        spec[kind] = [{"image": _IMAGE, **container} for container in spec[kind]]
    return Apply.model_validate(manifest)
