"""How a plugin of a story is run on a simulated node: its program, what it is told, and what it finds where.

A plugin that comes along is told the node's places. A foreign one has a node's paths built in, so it runs in a mount
namespace of its own. So does one that comes along where it looks for what only a mount can be: files of its own, and
character devices on a node whose containers are processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from simkubelet import _bundle
from simkubelet.apis.deviceplugin import DEVICE_PLUGIN_PATH
from simkubelet.sandbox import check_sandbox, sandboxed, tied_to_parent

from ..node_spec import DRIVER_ROOT, NodeSpec, Runtime
from ..plugin_process import PluginCommand
from ..plugin_spec import PluginSpec, Serves
from .sim_node import CDI_SPECS
from .stub_options import stub_options

if TYPE_CHECKING:
    from fakegpu import Machine

    from .sim_node import SimNode

_PCI_DEVICES: Final = "bus/pci/devices"
_MIG_MINORS: Final = "driver/nvidia-caps"
_NULL: Final = Path("/dev/null")
"""Stands for the devices of a machine, whose own files are no devices."""


def needs_view(node: NodeSpec, plugin: PluginSpec) -> bool:
    """Whether a plugin does its work only where it sees the node as the node's root does: in namespaces of its own."""
    has_contents = any(node.contents.values())
    has_devices = node.gpus is not None and node.runtime is Runtime.PROCESS
    # NVML gives the handle of an instance to root alone, which a plugin's pod is on a node.
    lacks_root = node.gpus is not None and bool(node.gpus.mig) and os.geteuid() != 0
    return plugin.builtin is None or has_contents or has_devices or lacks_root


def plugin_command(node: SimNode, spec: PluginSpec, replacement: tuple[str, ...] | None) -> PluginCommand:
    """How a plugin is run; `replacement` takes the place of its own program.

    Raises:
        HostError: A foreign program cannot be given the node's paths.
    """
    env = {**os.environ, **(_gpu_environment(node.machine) if node.machine else {})}
    if spec.uses_api and node.kubeconfig is not None:
        env |= {"KUBECONFIG": str(node.kubeconfig), "NODE_NAME": node.name}
    program = spec.foreign_program(replacement)
    if spec.builtin is not None and not program:
        env["PYTHONPATH"] = _bundle.python_path("plugin")
        settings = stub_options(spec.name, spec.serves or Serves()) if spec.is_stub else []
        told = [*_builtin(node, spec.builtin, socket_folder(node, spec)), *settings, *spec.builtin_args]
        argv = _sandboxed(told, _told_places(node)) if needs_view(node.spec, spec) else tied_to_parent(told)
    else:
        argv = _sandboxed(program, _built_in_places(node, socket_folder(node, spec)))
    is_told = spec.is_stub and replacement is None
    log = node.plugin_logs / f"{spec.name}.log"
    return PluginCommand(spec.name, node.name, tuple(argv), {**env, **spec.env}, log, is_told, spec.tap)


def socket_folder(node: SimNode, spec: PluginSpec) -> Path:
    """What a plugin takes for the kubelet's folder of sockets: one of its own where it has a tap."""
    return node.directory / "taps" / spec.name if spec.tap else node.plugin_folder


def _gpu_environment(machine: Machine) -> dict[str, str]:
    from ..nvidia_gpus import driver_environment

    return machine.environment() | driver_environment(DRIVER_ROOT)


def _builtin(node: SimNode, name: str, folder: Path) -> list[str]:
    # -P: the folder in which the command was given is no place to look for Python modules.
    program = [sys.executable, "-P", "-m", _bundle.module_name("plugin"), name]
    return [*program, "--kubelet-dir", str(folder), "--host-root", str(node.root)]


def _sandboxed(program: Sequence[str], places: Mapping[str, Path]) -> list[str]:
    check_sandbox()
    return sandboxed(program, places)


def _told_places(node: SimNode) -> Mapping[str, Path]:
    """What a program that is told the node's places must find all the same."""
    # What has something in it is a plugin's own affair, no device file below the host's root.
    places = _files(node, with_content=True)
    if node.machine is not None and node.spec.runtime is Runtime.PROCESS:
        places |= {str(device): _NULL for device in _devices(node.machine)}
    return places


def _built_in_places(node: SimNode, folder: Path) -> Mapping[str, Path]:
    """What a program with the node's paths built in must find there."""
    places = {DEVICE_PLUGIN_PATH: folder, **_files(node, with_content=False)}
    if (machine := node.machine) is not None:
        places[f"/sys/{_PCI_DEVICES}"] = machine.sys / _PCI_DEVICES
        places |= {place: node.files.place(place) for place in (CDI_SPECS, DRIVER_ROOT)}
        if machine.proc.exists():
            places[f"/proc/{_MIG_MINORS}"] = machine.proc / _MIG_MINORS
        places |= {f"/dev/{device.relative_to(machine.dev)}": _NULL for device in _devices(machine)}
    return places


def _devices(machine: Machine) -> list[Path]:
    return sorted(path for path in machine.dev.rglob("*") if not path.is_dir())


def _files(node: SimNode, *, with_content: bool) -> dict[str, Path]:
    """The folders of the story's files, or of those alone that are not empty."""
    paths = [path for path, content in node.spec.contents.items() if content or not with_content]
    return {str(PurePosixPath(path).parent): node.files.place(path).parent for path in paths}
