"""One simulated node of a story: its folder, its fake GPUs, and how its kubelet is set up.

The folder holds ``device-plugins/`` (the kubelet's), ``taps/`` (folders of sockets of plugins with a tap),
``machine/`` (the fake GPUs), ``root/`` (the node's own files), ``view/`` (what programs in a view of the node wrote
into folders that it shares with the host), ``containers/`` (what plugins' containers have for themselves) and ``logs/``
(what the kubelet and the plugins wrote).
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME
from simkubelet.apis.documents import LARGEST_CHECKPOINT, read_file
from simkubelet.devices import CHECKPOINT_NAME, check_socket_path
from simkubelet.dra import CHECKPOINT_NAME as CLAIMS_CHECKPOINT_NAME
from simkubelet.host import NodeView, folder_without_links
from simkubelet.model.config import KubeletConfig, RuntimeKind, TopologySettings
from simkubelet.model.errors import HostError, InputError
from simkubelet.model.version import version
from simkubelet.node_tree import DEVICE_PLUGINS, PLUGINS, PLUGINS_REGISTRY, POD_RESOURCES, FileTree

from ...story.specs import CDI_KIND, CDI_SPEC, DRIVER_ROOT, MANIFESTS, GpuSpec, NodeSpec, vendor_specs
from ...tap.tap import FOUND
from .family import kill_rooted
from .folders import own_folder
from .node_files import SimFiles

if TYPE_CHECKING:
    from fakegpu import Machine

    from .hardware import VendorDevices

CDI_SPECS: Final = "/var/run/cdi"
"""Where a plugin writes CDI specifications."""
KUBELET: Final = "/var/lib/kubelet"
OF_A_POD: Final = (KUBELET, "/run/cdi", "/etc/cdi")
"""Folders of a node, with all that is in them, of which a pod sees what it mounts alone."""
_CONTAINERS: Final = "containers"
"""Has the folder of each plugin's container: what that itself has at the paths of `OF_A_POD`."""


_OWN: Final = ("/etc/cdi", "/run/cdi", "/run/nvidia", "/var/lib/kubelet", "/var/lib/simkubelet")
"""Folders of which a node has its own alone, whatever the host has there."""
_EMPTY: Final = ("/tmp", "/var/tmp", "/run/user")  # noqa: S108  # the node's
"""The same where anybody may make files. Sockets in the host's are those of its users' programs."""
_OPEN: Final = ("/etc", "/mnt", "/opt", "/run", "/srv", "/var", "/var/lib", "/var/log")
"""Folders of the host into which a plugin may write; what it writes is the node's."""
_HARDWARE: Final = (
    *("/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/iluvatar*", "/dev/itrctl", "/proc/driver/nvidia*"),
    *("/sys/bus/pci/devices", "/sys/bus/pci/drivers/nvidia", "/sys/bus/pci/drivers/amdgpu", "/sys/class/drm"),
    *("/sys/class/kfd", "/sys/devices/virtual/kfd", "/sys/module/amdgpu", "/sys/module/nvidia*"),
)
"""Where the host's GPUs would be seen beside those of a node."""


_TAPS: Final = "taps"
_SHORTER: Final = "choose a folder with a shorter path with --dir or TMPDIR, where a link counts as what it leads to"
_LOG_LEVELS: Final = 3
"""Folders below that of the logs: ``pods``, a pod's and a container's."""
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  # the node's


class SimNode:
    """The files of one node; made by `create`, removed with the folder that they are in.

    Args:
        spec: What it is made of.
        directory: Its folder.
        changed: Paths at which files may be made later.
    """

    def __init__(self, spec: NodeSpec, directory: Path, changed: Sequence[str] = ()) -> None:
        self.spec = spec
        self._changed = changed
        self.directory = directory
        self.plugin_folder = directory / DEVICE_PLUGINS
        self.found_folder = directory / PLUGINS_REGISTRY
        self.pod_resources_socket = directory / POD_RESOURCES / "kubelet.sock"
        self.files = SimFiles(spec.name, directory)
        self.root = self.files.root
        # Resolved now, as nobody else has written there yet: what is a link later is not followed.
        own = directory.resolve()
        self._folder = FileTree(directory)
        self._logs = own / "logs"
        self.kubelet_log = self._logs / "kubelet.log"
        self.plugin_logs = self._logs / "plugins"
        self._machine_folder = own / "machine"
        self._view: int | None = None
        """The root of programs in views of the node."""
        self.machine: Machine | None = None
        self.kubeconfig: Path | None = None
        """What lets plugins in at the API server, where there is one."""
        self.vendor_devices: VendorDevices | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def logs(self) -> tuple[Path, ...]:
        """What the node's plugins, kubelet and containers wrote, without files that are empty or compressed.

        What a program has put in the place of a folder, or removes meanwhile, is left out.
        """
        found = []
        with suppress(OSError), folder_without_links(self._logs) as logs:
            for top, folders, names, here in os.fwalk(".", dir_fd=logs):
                folder = self._logs / top
                if len(Path(top).parts) == _LOG_LEVELS:
                    folders.clear()
                found += [folder / name for name in names if not name.endswith(".gz") and _is_written(name, here)]
        return tuple(sorted(found))

    def create(self) -> None:
        """Make the node's files.

        Raises:
            InputError: there is no such GPU profile, or the folder cannot be written.
            HostError: the fake GPUs cannot be made.
        """
        for folder in (self.root / "run", self.root / "var", self.plugin_logs):
            folder.mkdir(parents=True)
        (self.root / "var" / "run").symlink_to("../run")
        if self.spec.gpus is not None:
            self.machine = self._machine(self.spec.gpus)
            self.files.create_folder(CDI_SPECS)
        if self.spec.has_devices:
            for part in ("sys", "dev", "proc"):
                (self.root / part).symlink_to(self._machine_folder / part)
        if self.spec.amd is not None or self.spec.iluvatar is not None:
            self.vendor_devices = self._vendor_devices()
        for path, content in self.spec.contents.items():
            self.files.create(path, content)
        for path, target in self.spec.links.items():
            self.files.create_link(path, target)

    async def close(self) -> None:
        """End what serves for the node's devices and let go of their files; may be called when `create` has failed."""
        await self.end_strays()
        if self._view is not None:
            os.close(self._view)
            self._view = None
        if self.machine is not None:
            self.machine.close()
        if self.vendor_devices is not None:
            self.vendor_devices.close()

    async def end_strays(self) -> None:
        """Kill all processes in views of the node, those included that no plugin is known to have started."""
        if self._view is not None:
            await kill_rooted(os.fstat(self._view))

    def lose_memory(self) -> None:
        """Lose the CDI specifications of plugins, which are in memory, as at a reboot."""
        if self.files.tree.is_folder(CDI_SPECS):
            self.files.tree.clear(CDI_SPECS)

    def view(self, places: Mapping[str, Path], container: str | None = None) -> NodeView:
        """How a program sees the node that has a node's paths built in.

        Args:
            places: Path -> what it alone has there.
            container: The name of the container of a pod that it is; see `OF_A_POD`.

        Raises:
            InputError: a folder of the node is none, or a link out of it.
        """
        try:
            if container is not None:
                places = {**self._folders_of(container), **places}
            own = {
                path: self._folder.real_path(f"/{place.relative_to(self.directory)}") for path, place in places.items()
            }
            shown, storage = {**self._places(), **own}, self.files.open_view()
            if container is not None:
                shown = {path: place for path, place in shown.items() if path in own or not is_of_a_pod(path)}
            if self._view is None:
                # By its descriptor, as a plugin can put anything in its place.
                self._view = os.open(storage, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(f"{self.name}:{error.filename}: cannot be shown to a plugin: {error.strerror}") from None
        return NodeView(
            root=self.root,
            storage=storage,
            places=shown,
            hidden=(*_OWN, *(_HARDWARE if self.spec.has_devices else ())),
            opened=(*_OPEN, *(str(PurePosixPath(path).parent) for path in self._changed)),
            devices=self._machine_folder / "dev" if self._machine_folder.exists() else None,
            kept=(self.directory,),
        )

    def _folders_of(self, container: str) -> Mapping[str, Path]:
        folders = {path: f"/{_CONTAINERS}/{container}/{path[1:].replace('/', '-')}" for path in OF_A_POD}
        for folder in folders.values():
            self._folder.make_folder(folder, exist_ok=True)
        return {path: self.directory / folder[1:] for path, folder in folders.items()}

    def remove_container(self, container: str) -> None:
        """Remove what the container of a plugin has left in its own folders."""
        with suppress(OSError):
            self._folder.remove_folder(f"/{_CONTAINERS}/{container}")

    def tap_folder(self, plugin: str) -> Path:
        """Return the folder of sockets of a plugin with a tap."""
        return self.directory / _TAPS / plugin

    def found_tap_folder(self, plugin: str) -> Path:
        """Return what such a plugin takes for the folder in which the kubelet finds sockets."""
        return self.tap_folder(f"{plugin}{FOUND}")

    def make_tap_folders(self, plugin: str) -> None:
        """Make the folders of sockets of a plugin with a tap, and that of the kubelet which that watches as well.

        Raises:
            OSError: one cannot be made, or is a link.
        """
        for name in (plugin, f"{plugin}{FOUND}"):
            self._folder.make_folder(f"/{_TAPS}/{name}", exist_ok=True)
            if self._folder.real_path(f"/{_TAPS}/{name}") != self._logs.parent / _TAPS / name:
                raise OSError(errno.EXDEV, "leads out of its place")
        self.found_folder.mkdir(mode=0o750, exist_ok=True)

    def _places(self) -> Mapping[str, Path]:
        """The folders that are the node's own and lie elsewhere than below its root."""
        root = self.files.tree
        own = {path: (root, path) for path in _EMPTY} | {_SHARED_MEMORY: (self._folder, "/shm")}
        for tree, path in own.values():
            tree.make_folder(path, exist_ok=True)
            with tree.folder(path) as opened:
                os.fchmod(opened, 0o1777)
        for path in _OWN:
            root.make_folder(path, exist_ok=True)
        kubelet = [f"{KUBELET}/{one}" for one in (PLUGINS, PLUGINS_REGISTRY, POD_RESOURCES)]
        shown = own | {path: (root, path) for path in kubelet if root.is_folder(path)}
        return {path: tree.real_path(there) for path, (tree, there) in shown.items()}

    def checkpoint_text(self) -> str | None:
        """What is in the kubelet's file of who holds which device; None where there is none."""
        return self._text_of(f"/{DEVICE_PLUGINS}/{CHECKPOINT_NAME}")

    def claims_text(self) -> str | None:
        """What is in the file of the kubelet's DRA manager; None where there is none."""
        return self._text_of(f"/{CLAIMS_CHECKPOINT_NAME}")

    def _text_of(self, file: str) -> str | None:
        try:
            with self._folder.open(file, "rb") as opened:
                return read_file(opened.fileno(), LARGEST_CHECKPOINT).decode(errors="replace")
        except OSError:
            return None

    def kubelet_config(self) -> KubeletConfig:
        """The settings of the node's kubelet."""
        topology, numa_nodes = self.spec.topology, tuple(range(self.spec.numa_nodes))
        return KubeletConfig(
            self.name,
            version(self.spec.kubernetes),
            topology=TopologySettings(topology.policy, topology.scope, topology.options, numa_nodes),
            feature_gates=self.spec.feature_gates,
            runtime=RuntimeKind(self.spec.runtime.value),
            static_pod_path=self.files.place(MANIFESTS),
            max_message_bytes=self.spec.max_message_bytes,
        )

    def _machine(self, gpus: GpuSpec) -> Machine:
        """The fake GPUs, their driver, and the specification by which a container runtime gives them to containers."""
        from fakegpu import cdi_spec, make_driver_root

        from .hardware import make_gpus

        with as_story_errors():
            machine = make_gpus(self._machine_folder, **gpus.model_dump())
            make_driver_root(machine, self.files.place(DRIVER_ROOT))
        spec = cdi_spec(machine, CDI_KIND)
        # Our nvidia-smi needs this Python, which containers of a node have, and others may not.
        program = {"hostPath": str(machine.directory / "bin" / "nvidia-smi"), "containerPath": "/usr/bin/nvidia-smi"}
        spec["containerEdits"]["mounts"].append(program | {"options": ["ro", "nosuid", "nodev", "bind"]})
        self.files.create(CDI_SPEC, json.dumps(spec))
        return machine

    def _vendor_devices(self) -> VendorDevices:
        from .hardware import VendorDevices

        with as_story_errors():
            devices = VendorDevices(self._machine_folder, *vendor_specs(self.spec))
            devices.serve(self.root)
        return devices


def is_of_a_pod(path: str) -> bool:
    """Whether a path of a node is in one of the folders of which a pod sees what it mounts alone."""
    return any(PurePosixPath(path).is_relative_to(folder) for folder in OF_A_POD)


def _is_written(name: str, folder: int) -> bool:
    """Whether there is a file with content."""
    with suppress(OSError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return stat.S_ISREG(status.st_mode) and status.st_size > 0
    return False


def check_base(base: Path | None, nodes: Iterable[str]) -> None:
    """Check that the folders of nodes can be made below a folder, and hold their sockets.

    Raises:
        InputError: They cannot.
        HostError: There is no space left.
    """
    with own_folder(base) as folder:
        for node in nodes:
            check_socket_path(folder / node / DEVICE_PLUGINS / KUBELET_SOCKET_NAME, _SHORTER)


@contextmanager
def as_story_errors() -> Iterator[None]:
    """Turns what goes wrong with fake GPUs into the errors that a story ends with."""
    from fakegpu import FakeGpuError

    try:
        yield
    except FakeGpuError as error:
        raise (InputError if error.exit_status == InputError.exit_status else HostError)(str(error)) from None
