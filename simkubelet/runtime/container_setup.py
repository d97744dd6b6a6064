"""What a container's sandbox holds: the answers of the plugins, CDI and the node itself, resolved on this host.

A path of the node is looked for below the node's root first, on the host next, and then among what plugins wrote into
folders that the node shares with the host: what a fake machine or a story put there is the node's, the rest of a node
is the host. No container may change the host, so what comes from there is mounted read-only, and sockets of its
programs are not there. The links that hooks of
NVIDIA's container toolkit create are made here too.

Source: internal/cri/opts/spec_linux_opts.go and container_create.go (containerd v2.1.4), also for the texts and for
the order in which one thing replaces another: plugins, CDI, then the node's own hook;
cmd/nvidia-cdi-hook/create-symlinks (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import errno
import os
import posixpath
import secrets
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .._internal.file_tree import PATH_MAX, check_path
from .._internal.sandbox import cluster_home, is_stand_in
from ..apis.cdi import ContainerEdits, DeviceNode, Hook
from ..cdi import CdiNameError, CdiRegistry, UnresolvableDevicesError, devices_in_annotations
from ..devices.pod_devices import DeviceRunOptions
from ..node_tree import FileTree, node_tree, open_without_links
from .bubblewrap import Bind
from .container_runtime import init_error, injection_error, refused_container, refused_spec

__all__ = ["ContainerSetup", "NodeHook", "cdi_edits", "links_of", "no_hook", "set_up"]

_COMMAND: Final = "create-symlinks"
_OPTION: Final = "--link"
NodeHook = Callable[[Mapping[str, str]], ContainerEdits]
"""What a node adds to each container by itself, from the environment that the container has by then.

On a real node that is the vendor's container toolkit, which looks at ``NVIDIA_VISIBLE_DEVICES``.
"""
_ALL: Final = "rwm"
_OF_PROGRAMS: Final = (Path("/run"), Path("/var/run").resolve())
_MISSING: Final = os.strerror(errno.ENOENT).lower()
_SHOWN_OF_PATH: Final = 256
_MOST_BINDS: Final = 1000
"""Mounts, devices and links of a container: to look for each takes part of a millisecond, in which the node waits."""


def links_of(hook: Hook) -> Mapping[str, str] | None:
    """Path in the container -> what the link there says; None for a hook that does anything else.

    The arguments are ``nvidia-cdi-hook create-symlinks --link TARGET::LINK …``, or ``nvidia-ctk hook`` and the same.

    Raises:
        ContainerStartError: the hook fails.
    """
    name, *words = hook.args or ("",)
    if posixpath.basename(name) == "nvidia-ctk":
        words = words[1:]
    if words[:1] != [_COMMAND]:
        return None
    given = [word for option, word in zip(words[1::2], words[2::2], strict=False) if option == _OPTION]
    links = {}
    for word in given:
        target, separator, link = word.partition("::")
        if not separator or "::" in link:
            raise init_error(f"error running {hook.hook_name} hook: invalid symlink specification {word}")
        links[link] = target
    return links


def no_hook(_env: Mapping[str, str]) -> ContainerEdits:
    """The hook of a node that adds nothing."""
    return ContainerEdits()


@dataclass(slots=True)
class ContainerSetup:
    """The growing description of one container.

    Attributes:
        folder: The node's folder, with ``root`` and ``view``.
        env: The environment of its program.
        binds: Path in the container -> what is shown there.
        limits: What was asked for and is not given here, a line each.
    """

    folder: Path
    env: dict[str, str]
    binds: dict[str, Bind] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)
    _asked: int = field(default=0, init=False)

    def mount(self, host_path: str, container_path: str, *, is_read_only: bool) -> None:
        """Mount a file or folder of the node; one that is not there is made, a folder, as containerd does."""
        source = self._on_host(host_path)
        if source is None:
            path = str(_absolute(host_path))
            try:
                self._tree.make_folder(path)
                source = self._tree.real_path(path)
            except OSError as error:
                words = (error.strerror or "").lower()
                raise refused_spec(f'failed to mkdir "{host_path}": mkdir {host_path}: {words}') from None
        if self._is_of_host(source) and not is_read_only:
            self.limits.append(f"mount {container_path}: {host_path} is the host's, so it is read-only")
        self._bind(source, container_path, is_read_only=is_read_only or self._is_of_host(source))

    def device(self, host_path: str, container_path: str, permissions: str) -> None:
        """Show a device node of the node, or a file that stands for one."""
        source = self._on_host(host_path)
        if source is None:
            raise refused_spec(f"lstat {host_path}: {_why_unseen(host_path)}")
        is_node = not stat.S_ISREG(source.stat().st_mode)
        if is_node and not source.is_dir() and set(permissions or _ALL) != set(_ALL):
            self.limits.append(f"device {container_path}: permissions {permissions!r}: the file's own ones hold")
        if source.is_dir() and self._is_of_host(source):
            # One by one, as containerd does too: nothing can be made in the host's folder then.
            try:
                found = [one for one in sorted(source.iterdir()) if one.is_char_device() or one.is_block_device()]
            except OSError as error:
                raise refused_spec(f"open {host_path}: {(error.strerror or '').lower()}") from None
            for entry in found:
                self.device(str(entry), f"{container_path}/{entry.name}", permissions)
            return
        is_read_only = not is_node and ("w" not in (permissions or _ALL) or self._is_of_host(source))
        self._bind(source, container_path, is_read_only=is_read_only, is_device=True)

    def apply(self, edits: ContainerEdits, logs: Path) -> None:
        """Apply container edits; each replaces what has the same name or place. `logs` takes stand-ins for devices."""
        _refuse_many(edits.device_nodes, edits.mounts, edits.hooks, edits.additional_gids)
        for variable in edits.env:
            name, _, self.env[name] = variable.partition("=")
        for node in edits.device_nodes:
            self._cdi_device(node, logs)
        for mount in edits.mounts:
            if self._on_host(mount.host_path) is None:
                real = _seen(_absolute(mount.host_path))
                if real is not None and self._is_of_programs(real):
                    where = f"mount {mount.container_path}: {mount.host_path}"
                    self.limits.append(f"{where} is the host's, with sockets of its programs, so it is left out")
                    continue
                where = f'error mounting "{mount.host_path}" to rootfs at "{mount.container_path}"'
                raise init_error(f"{where}: stat {mount.host_path}: {_why_unseen(mount.host_path)}")
            self.mount(mount.host_path, mount.container_path, is_read_only="ro" in mount.options)
        for hook in edits.hooks:
            self._hook(hook)
        if edits.intel_rdt is not None:
            self.limits.append("intelRdt: no OCI runtime, so it is not set")
        self.limits += [
            f"additionalGids: {gid}: not in the container's user namespace" for gid in edits.additional_gids
        ]

    def _cdi_device(self, node: DeviceNode, logs: Path) -> None:
        if self._on_host(node.source) is not None:
            self.device(node.source, node.path, node.permissions)
        elif node.type and (node.major or node.type == "p"):
            stand_in = logs / f"device-{secrets.token_hex(4)}"
            open_without_links(stand_in, "xb").close()
            self._bind(stand_in, node.path, is_read_only=False, is_device=True)
            number = f"{node.type} {node.major}:{node.minor}"
            self.limits.append(f"device {node.path}: making {number} takes a privilege, a plain file stands for it")
        else:
            words = f'failed to stat CDI host device "{node.source}": {_why_unseen(node.source)}'
            raise injection_error(f"failed to inject devices: {words}")

    def _hook(self, hook: Hook) -> None:
        links = links_of(hook)
        if links is None:
            self.limits.append(f"hook {hook.hook_name} {hook.path}: no OCI runtime, so it did not run")
            return
        for link, target in links.items():
            self._show(Bind(target, str(_absolute(link)), is_link=True))

    def _bind(self, source: Path, target: str, *, is_read_only: bool, is_device: bool = False) -> None:
        self._show(Bind(str(source), str(_absolute(target)), is_read_only, is_device))

    def _show(self, bind: Bind) -> None:
        self._asked += 1
        _refuse_many(range(self._asked))
        self.binds[bind.target] = bind

    def _on_host(self, path: str) -> Path | None:
        """Where a path of the node is on this host, without links."""
        absolute = _absolute(path)
        for tree in (self._tree, None, FileTree(self.folder, "view")):
            if tree is None:
                real = _seen(absolute)
                if real is not None and not self._is_of_programs(real):
                    return real
                continue
            try:
                if not is_stand_in(tree.stat(str(absolute))):
                    return tree.real_path(str(absolute))
            except OSError:
                continue
        return None

    def _is_of_programs(self, real: Path) -> bool:
        """Whether what is on the host is a socket, or holds those of its programs, or is of one of its processes.

        A mount that is read-only lets a container connect, and who answers does what it is asked with rights of its
        own. ``/proc/self`` would be the simulator, whose environment a container of the same user may read. The folder
        of our clusters has their keys, too.
        """
        if real.is_relative_to("/proc") and "".join(real.parts[2:3]).isdecimal():
            return True
        clusters = () if real.is_relative_to(self.folder.resolve()) else (Path(os.path.realpath(cluster_home())),)
        places = (*_OF_PROGRAMS, *clusters)
        return real.is_socket() or any(real.is_relative_to(place) or place.is_relative_to(real) for place in places)

    @property
    def _tree(self) -> FileTree:
        return node_tree(self.folder)

    def _is_of_host(self, source: Path) -> bool:
        return not source.is_relative_to(self.folder.resolve())


def _refuse_many(*asked: Collection[object]) -> None:
    if sum(map(len, asked)) > _MOST_BINDS:
        raise refused_container(f"more than {_MOST_BINDS:,} mounts, devices and links; give the container fewer")


def _seen(path: Path) -> Path | None:
    """What is at a path of the host, without links; None where nothing can be seen."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None


def _why_unseen(path: str) -> str:
    """Go's words for what keeps a path of the host from being looked at; a node lacks what the host does not show."""
    try:
        check_path(path)
        _absolute(path).stat()
    except OSError as error:
        return (error.strerror or "").lower()
    return _MISSING


def set_up(
    folder: Path, env: Mapping[str, str], options: DeviceRunOptions, edits: ContainerEdits, hook: NodeHook, logs: Path
) -> ContainerSetup:
    """Describe a container of a node.

    Args:
        folder: The node's folder, with ``root`` and ``view``.
        env: The environment, that of the pod and the plugins together.
        options: What the plugins asked for.
        edits: Those of the CDI devices among that.
        hook: What the node adds.
        logs: The container's own folder.

    Raises:
        ContainerStartError: something that was asked for is not there.
    """
    _refuse_many(options.mounts, options.devices)
    setup = ContainerSetup(folder, dict(env))
    for mount in options.mounts:
        setup.mount(mount.host_path, mount.container_path, is_read_only=mount.read_only)
    for device in options.devices:
        setup.device(device.host_path, device.container_path, device.permissions)
    setup.apply(edits, logs)
    setup.apply(hook(setup.env), logs)
    return setup


def cdi_edits(folder: Path, options: DeviceRunOptions) -> ContainerEdits:
    """The edits of the CDI devices that a plugin named, in its answer's own field and then in annotations.

    Takes a second where there are megabytes of specifications.

    Raises:
        ContainerStartError: a name is none, or no specification of the node has it.
    """
    try:
        devices = dict.fromkeys((*options.cdi_devices, *devices_in_annotations(options.annotations)))
    except CdiNameError as error:
        raise refused_container(f"failed to parse CDI device annotations: {error}") from None
    if not devices:
        return ContainerEdits()
    registry = CdiRegistry.load(node_tree(folder))
    try:
        return registry.edits(tuple(devices))
    except UnresolvableDevicesError as error:
        refusal = injection_error(str(error))
        for problem in registry.problems:
            refusal.add_note(problem)
        raise refusal from None


def _absolute(path: str) -> Path:
    """A path as seen from the root, so that no ``..`` leads out of a folder that stands for it.

    Raises:
        ContainerStartError: it has so many names that to look at them takes a second.
    """
    if len(path) > PATH_MAX:
        raise refused_spec(f"{path[:_SHOWN_OF_PATH]}...: file name too long")
    return Path(os.path.normpath(f"/{path.lstrip('/')}"))
