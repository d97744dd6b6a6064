"""One simulated node of a story: its folder, fake GPUs, kubelet and plugins.

The folder holds ``device-plugins/`` (the kubelet's), ``taps/`` (folders of sockets of plugins with a tap),
``machine/`` (the fake GPUs), ``root/`` (the node's files as plugins see them) and ``logs/`` (what the kubelet and the
plugins wrote).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from simkubelet import _bundle
from simkubelet.apis.deviceplugin import DEVICE_PLUGIN_PATH
from simkubelet.config import KubeletConfig, RuntimeKind
from simkubelet.devices.checkpoint import CHECKPOINT_NAME
from simkubelet.errors import HostError, InputError
from simkubelet.kubelet import DEVICE_PLUGINS
from simkubelet.node_services import PLUGINS_REGISTRY, POD_RESOURCES
from simkubelet.sandbox import check_sandbox, sandboxed, tied_to_parent
from simkubelet.topology.settings import TopologySettings
from simkubelet.version import version

from ..node_spec import CDI_KIND, CDI_SPEC, MANIFESTS, GpuSpec, NodeSpec, vendor_specs
from ..plugin_process import PluginCommand
from ..plugin_spec import PluginSpec, Serves
from .stub_options import stub_options

if TYPE_CHECKING:
    from fakegpu import Machine

    from ..vendor_devices import VendorDevices

_PCI_DEVICES: Final = "bus/pci/devices"
_MIG_MINORS: Final = "driver/nvidia-caps"
_CDI_SPECS: Final = "/var/run/cdi"
"""Where a plugin writes CDI specifications."""
_KUBELET: Final = PurePosixPath("/var/lib/kubelet")
_SOCKET_FOLDERS: Final = {(DEVICE_PLUGINS,), (PLUGINS_REGISTRY,), (POD_RESOURCES,)}
"""Those of a kubelet's folders that lie in the node's own folder here."""


class SimNode:
    """The files of one node; made by `create`, removed with the folder that they are in."""

    def __init__(self, spec: NodeSpec, directory: Path) -> None:
        self.spec = spec
        self.directory = directory
        self.plugin_folder = directory / DEVICE_PLUGINS
        self.pod_resources_socket = directory / POD_RESOURCES / "kubelet.sock"
        self.root = directory / "root"
        self.kubelet_log = directory / "logs" / "kubelet.log"
        self._plugin_logs = directory / "logs" / "plugins"
        self._machine_folder = directory.absolute() / "machine"
        self.machine: Machine | None = None
        self.kubeconfig: Path | None = None
        """What lets plugins in at the API server, where there is one."""
        self.vendor_devices: VendorDevices | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    def create(self) -> None:
        """Make the node's files.

        Raises:
            InputError: there is no such GPU profile, or the folder cannot be written.
            HostError: the fake GPUs cannot be made.
        """
        for folder in (self.root, self._plugin_logs):
            folder.mkdir(parents=True)
        if self.spec.gpus is not None:
            from fakegpu import cdi_spec

            self.machine = _machine(self._machine_folder, self.spec.gpus)
            self.place(_CDI_SPECS).mkdir(parents=True)
            self.create_file(CDI_SPEC, json.dumps(cdi_spec(self.machine, CDI_KIND)))
        if self.spec.has_devices:
            for part in ("sys", "dev", "proc"):
                (self.root / part).symlink_to(self._machine_folder / part)
        if self.spec.amd is not None or self.spec.iluvatar is not None:
            self.vendor_devices = self._vendor_devices()
        for path, content in self.spec.contents.items():
            self.create_file(path, content)

    def close(self) -> None:
        """End what serves for the node's devices; may be called when `create` has failed."""
        if self.vendor_devices is not None:
            self.vendor_devices.close()

    def create_file(self, path: str, content: str = "") -> None:
        """Make a file at an absolute path of the node.

        Raises:
            InputError: it is there, or something else is in its way.
        """
        place = self.place(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("x", encoding="utf-8") as file:
                file.write(content)
        except OSError as error:
            raise InputError(f"{self.name}:{path}: cannot be created: {error.strerror}") from None

    def write_file(self, path: str, content: str) -> None:
        """Give the file at an absolute path of the node another content.

        Raises:
            InputError: there is no such file.
        """
        try:
            with self.place(path).open("r+", encoding="utf-8") as file:
                file.write(content)
                file.truncate()
        except OSError as error:
            raise InputError(f"{self.name}:{path}: cannot be written: {error.strerror}") from None

    def move_file(self, path: str, to: str) -> None:
        """Give the file at an absolute path of the node another one.

        Raises:
            InputError: there is no such file, or something is in its way.
        """
        if os.path.lexists(self.place(to)):
            raise InputError(f"{self.name}:{to}: is there already; remove it first")
        try:
            self.place(path).rename(self.place(to))
        except OSError as error:
            raise InputError(f"{self.name}:{path}: cannot be moved to {to}: {error.strerror}") from None

    def remove_file(self, path: str) -> None:
        """Remove the file at an absolute path of the node.

        Raises:
            InputError: there is no such file.
        """
        try:
            self.place(path).unlink()
        except OSError as error:
            raise InputError(f"{self.name}:{path}: cannot be removed: {error.strerror}") from None

    def create_folder(self, path: str) -> None:
        """Make a folder at an absolute path of the node.

        Raises:
            InputError: it is there, or something else is in its way.
        """
        try:
            self.place(path).mkdir(parents=True)
        except OSError as error:
            raise InputError(f"{self.name}:{path}: cannot be created: {error.strerror}") from None

    def remove_folder(self, path: str) -> None:
        """Remove the folder at an absolute path of the node with all that is in it.

        Raises:
            InputError: there is no such folder.
        """
        try:
            shutil.rmtree(self.place(path))
        except OSError as error:
            raise InputError(f"{self.name}:{path}: cannot be removed: {error.strerror}") from None

    def place(self, path: str) -> Path:
        """Where a file of the node lies here."""
        below_kubelet = PurePosixPath(path).parts[len(_KUBELET.parts) :]
        if PurePosixPath(path).is_relative_to(_KUBELET) and below_kubelet[:1] in _SOCKET_FOLDERS:
            return self.directory.joinpath(*below_kubelet)
        return self.root / path.lstrip("/")

    def checkpoint_text(self) -> str | None:
        """What is in the kubelet's file of who holds which device; None where there is none."""
        try:
            return (self.plugin_folder / CHECKPOINT_NAME).read_text(errors="replace")
        except FileNotFoundError:
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
            static_pod_path=self.place(MANIFESTS),
        )

    def plugin_command(self, spec: PluginSpec, replacement: tuple[str, ...] | None) -> PluginCommand:
        """How a plugin of the story is run here; `replacement` takes the place of its own program.

        Raises:
            HostError: a foreign program cannot be given the node's paths.
        """
        env = {**os.environ, **(self.machine.environment() if self.machine else {})}
        if spec.uses_api and self.kubeconfig is not None:
            env |= {"KUBECONFIG": str(self.kubeconfig), "NODE_NAME": self.name}
        if replacement is None and spec.builtin is not None:
            env["PYTHONPATH"] = _bundle.python_path("plugin")
            settings = stub_options(spec.name, spec.serves or Serves()) if spec.is_stub else []
            told = [*self._builtin(spec.builtin, self.socket_folder(spec)), *settings, *spec.args]
            # What has something in it is a plugin's own affair, no device file below the host's root.
            argv = self._sandboxed(told, files) if (files := self._files(with_content=True)) else tied_to_parent(told)
        else:
            program = replacement or (*(spec.command or ()), *spec.args)
            argv = self._sandboxed(program, self._built_in_places(self.socket_folder(spec)))
        is_told = spec.is_stub and replacement is None
        env |= spec.env
        return PluginCommand(spec.name, self.name, tuple(argv), env, self._log(spec.name), is_told, spec.tap)

    def socket_folder(self, spec: PluginSpec) -> Path:
        """What a plugin takes for the kubelet's folder of sockets: one of its own where it has a tap."""
        return self.directory / "taps" / spec.name if spec.tap else self.plugin_folder

    def _builtin(self, name: str, socket_folder: Path) -> list[str]:
        # -P: the folder in which the command was given is no place to look for Python modules.
        program = [sys.executable, "-P", "-m", _bundle.module_name("plugin"), name]
        return [*program, "--kubelet-dir", str(socket_folder), "--host-root", str(self.root)]

    def _sandboxed(self, program: Sequence[str], places: Mapping[str, Path]) -> list[str]:
        check_sandbox()
        return sandboxed(program, places)

    def _built_in_places(self, socket_folder: Path) -> Mapping[str, Path]:
        """What a program with the node's paths built in must find there."""
        places = {DEVICE_PLUGIN_PATH: socket_folder, **self._files(with_content=False)}
        if self.machine is not None:
            places[f"/sys/{_PCI_DEVICES}"] = self.machine.sys / _PCI_DEVICES
            places[_CDI_SPECS] = self.place(_CDI_SPECS)
            if self.machine.proc.exists():
                places[f"/proc/{_MIG_MINORS}"] = self.machine.proc / _MIG_MINORS
            for node in sorted(path for path in self.machine.dev.rglob("*") if not path.is_dir()):
                places[f"/dev/{node.relative_to(self.machine.dev)}"] = node
        return places

    def _files(self, *, with_content: bool) -> Mapping[str, Path]:
        """The folders of the story's files, or of those alone that are not empty."""
        paths = [path for path, content in self.spec.contents.items() if content or not with_content]
        return {str(PurePosixPath(path).parent): self.place(path).parent for path in paths}

    def _vendor_devices(self) -> VendorDevices:
        from ..vendor_devices import VendorDevices

        with told_errors():
            devices = VendorDevices(self._machine_folder, *vendor_specs(self.spec))
            devices.serve(self.root)
        return devices

    def _log(self, plugin: str) -> Path:
        return self._plugin_logs / f"{plugin}.log"


def new_folder(base: Path | None) -> Path:
    """A new folder for the nodes, with a short name as sockets are made below it."""
    place = base or Path(tempfile.gettempdir())
    try:
        return Path(tempfile.mkdtemp(prefix="sk-", dir=place))
    except OSError as error:
        kind = HostError if error.errno == errno.ENOSPC else InputError
        raise kind(f"{place}: no folder can be made here: {error.strerror}; choose another with --dir") from None


@contextmanager
def removed_at_end(folder: Path) -> Iterator[Path]:
    """A folder that goes in the end with all that is in it.

    Raises:
        HostError: it cannot be removed.
    """
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise HostError(f"{error.filename}: cannot be removed: {error.strerror}; remove it by hand") from None


def _machine(directory: Path, gpus: GpuSpec) -> Machine:
    from ..nvidia_gpus import make_gpus

    with told_errors():
        return make_gpus(directory, **gpus.model_dump())


@contextmanager
def told_errors() -> Iterator[None]:
    """Turns what goes wrong with fake GPUs into the errors that a story ends with."""
    from fakegpu.errors import FakeGpuError

    try:
        yield
    except FakeGpuError as error:
        raise (InputError if error.exit_status == InputError.exit_status else HostError)(str(error)) from None
