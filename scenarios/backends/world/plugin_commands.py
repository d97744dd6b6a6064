"""How a plugin of a story is run on a simulated node: its program, its options, and what it finds where.

A bundled plugin is given the node's places as options. A foreign one has a node's paths built in, so it runs in a view
of the node (`sandbox`). So does a bundled one that looks for what only a mount can be: files of its own, and
character devices on a node whose containers are processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simkubelet.apis.deviceplugin import DEVICE_PLUGIN_PATH
from simkubelet.host import check_sandbox, module_name, python_path, sandboxed, tied_to_parent

from ...story.specs import DRIVER_ROOT, NodeSpec, PluginSpec, Runtime, Serves, devices_in_full
from .plugin_process import PluginCommand

if TYPE_CHECKING:
    from fakegpu import Machine

    from .node import SimNode


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
    program, folder = spec.foreign_program(replacement), socket_folder(node, spec)
    if spec.builtin is not None and not program:
        env["PYTHONPATH"] = python_path("plugin")
        settings = stub_options(spec.name, spec.serves or Serves()) if spec.is_stub else []
        argv = [*_builtin(node, spec.builtin, folder), *settings, *spec.builtin_args]
        argv = _seen(node, argv, folder) if needs_view(node.spec, spec) else tied_to_parent(argv)
    else:
        argv = _seen(node, program, folder)
    takes_commands = spec.is_stub and replacement is None
    log = node.plugin_logs / f"{spec.name}.log"
    return PluginCommand(spec.name, node.name, tuple(argv), {**env, **spec.env}, log, takes_commands, spec.tap)


def socket_folder(node: SimNode, spec: PluginSpec) -> Path:
    """What a plugin takes for the kubelet's folder of sockets: one of its own where it has a tap."""
    return node.directory / "taps" / spec.name if spec.tap else node.plugin_folder


def _gpu_environment(machine: Machine) -> dict[str, str]:
    from .nvidia_gpus import driver_environment

    return machine.environment() | driver_environment(DRIVER_ROOT)


def _builtin(node: SimNode, name: str, folder: Path) -> list[str]:
    # -P: the folder in which the command was given is no place to look for Python modules.
    program = [sys.executable, "-P", "-m", module_name("plugin"), name]
    return [*program, "--kubelet-dir", str(folder), "--host-root", str(node.root)]


def _seen(node: SimNode, program: Sequence[str], folder: Path) -> list[str]:
    """The argv that runs a program in a view of the node, where `folder` is the kubelet's folder of sockets."""
    check_sandbox()
    return sandboxed(program, node.view({DEVICE_PLUGIN_PATH: folder}))


def stub_options(name: str, serves: Serves) -> list[str]:
    """The words after ``plugin stub`` for what a story's stub serves."""
    options = ["--resource", serves.resource, "--socket", serves.socket or f"{name}.sock"]
    for device in devices_in_full(serves.devices):
        nodes = [f"numa={node}" for node in device["numa"]]
        options += ["--device", ",".join([device["id"], f"health={device['health']}", *nodes])]
    flags = {"--pre-start": serves.pre_start, "--preferred-allocation": serves.preferred_allocation}
    return [*options, "--registers", serves.registers.value, *(flag for flag, is_set in flags.items() if is_set)]
