"""Run our NVIDIA plugin on the GPUs of this machine under a simulated kubelet, and print what was seen as a table.

The library is the one that the loader finds: the driver's, or that of a fake machine (``fakegpu exec -- python
tools/check/plugin_on_gpus.py``). Seen are the registrations, the devices beside those that NVML tells, the devices and
variables of a pod, the subscription to health events, and the CDI specifications beside the device nodes of this
machine. Nothing is changed on the machine: the plugin has the kubelet's folder in a mount namespace of its own.

Words after the program's name are further options of the plugin, such as ``--driver-root-ctr-path``. Exit status 1
where something is not as it should be, 3 where there is no GPU.
"""

from __future__ import annotations

import asyncio
import json
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml

from scenarios.backends.sim.backend import SimBackend
from scenarios.evaluation.verdict import Outcome
from scenarios.play.runner import play
from scenarios.story.document import Document, load
from scenarios.trace.snapshot import Snapshot
from scenarios.trace.trace import E, Entry
from simkubelet.model.errors import SimkubeletError
from simkubelet.model.events import DevicesListed, PluginRegistered

RESOURCE_PREFIX = "nvidia.com/"
FAILS_HEALTH = ("Cannot watch device", "Cannot register the events", "Failed to start health check")
STORY = """\
name: plugin-on-gpus
description: The plugin on this machine's GPUs; a pod takes one of them.
plugins:
  - name: nvidia
    command: {command}
steps:
  - expect: {{node: node-1, capacity: {{{resource}: {count}}}, allocatable: {{{resource}: {count}}}, within: 60s}}
  - apply:
      apiVersion: v1
      kind: Pod
      metadata: {{name: probe}}
      spec:
        containers:
          - name: main
            image: busybox:1.36
            command: [sleep, infinity]
            resources: {{limits: {{{resource}: 1}}}}
  - expect: {{pod: probe, phase: Running, devices: {{{resource}: 1}}, within: 60s}}
"""


class NoGpuError(Exception):
    """There is nothing to run the plugin on."""


@dataclass(frozen=True)
class Hardware:
    """What NVML tells: resource -> UUIDs of its devices, with the strategy ``mixed``."""

    driver: str
    names: tuple[str, ...]
    devices: Mapping[str, frozenset[str]]


@dataclass
class Seen:
    """What a run of the plugin left behind; `failure` is empty where the story went well."""

    events: list[Entry] = field(default_factory=list)
    snapshot: Snapshot | None = None
    specs: tuple[Mapping[str, Any], ...] = ()
    log: str = ""
    failure: str = ""
    duration_s: float = 0.0

    def of(self, kind: type[E]) -> Iterator[E]:
        return (entry.event for entry in self.events if isinstance(entry.event, kind))


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    is_right: bool
    seen: str


def main() -> int:
    try:
        hardware = find_hardware()
    except NoGpuError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    rows = [Row("NVML", True, f"driver {hardware.driver}: {', '.join(hardware.names)}")]
    with tempfile.TemporaryDirectory(prefix="gpu-", dir="/tmp") as folder:
        # Outside of a pod, the driver is where it was installed; a later option overrides.
        options = ["--mig-strategy=mixed", "--driver-root-ctr-path=/", *sys.argv[1:]]
        seen = run_plugin(hardware, Path(folder), options)
        rows += [*registered(seen), *listed(seen, hardware), *allocated(seen), *subscribed(seen, hardware)]
        rows += described(run_plugin(hardware, Path(folder), [*options, "--device-list-strategy=cdi-cri"]), hardware)
    width = max(len(row.what) for row in rows)
    for row in rows:
        print(f"{row.what:{width}}  {'ok    ' if row.is_right else 'FAILED'}  {row.seen}")
    return 0 if all(row.is_right for row in rows) else 1


def find_hardware() -> Hardware:
    """Ask NVML, on its own and not through the plugin.

    Raises:
        NoGpuError: there is no library, no driver or no GPU.
    """
    try:
        with nvml():
            gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            found: dict[str, set[str]] = {}
            for gpu in gpus:
                for resource, uuid in devices_of(gpu):
                    found.setdefault(resource, set()).add(uuid)
            names = tuple(str(pynvml.nvmlDeviceGetName(gpu)) for gpu in gpus)
            driver = str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        raise NoGpuError(f"NVML does not answer here ({error}); run it where an NVIDIA driver is loaded") from None
    if not found:
        raise NoGpuError(f"driver {driver} shows no GPU or MIG device; run it where there is one")
    return Hardware(driver, names, {resource: frozenset(uuids) for resource, uuids in sorted(found.items())})


@contextmanager
def nvml() -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def devices_of(gpu: Any) -> Iterator[tuple[str, str]]:
    """Resource and UUID of a GPU, or of each MIG device on it."""
    try:
        is_divided = pynvml.nvmlDeviceGetMigMode(gpu)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except pynvml.NVMLError_NotSupported:
        is_divided = False
    if not is_divided:
        yield f"{RESOURCE_PREFIX}gpu", str(pynvml.nvmlDeviceGetUUID(gpu))
        return
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except pynvml.NVMLError_NotFound:
            continue
        profile = str(pynvml.nvmlDeviceGetName(device)).rpartition("MIG ")[2].replace("+", ".")
        yield f"{RESOURCE_PREFIX}mig-{profile}", str(pynvml.nvmlDeviceGetUUID(device))


def run_plugin(hardware: Hardware, folder: Path, options: list[str]) -> Seen:
    """Play the story with the plugin."""
    command = [sys.executable, "-P", "-m", "plugin", "nvidia", *options]
    resource, uuids = next(iter(hardware.devices.items()))
    path = folder / "plugin-on-gpus.yaml"
    path.write_text(STORY.format(command=json.dumps(command), resource=resource, count=len(uuids)))
    document = load(path)
    backend = SimBackend(document.scenario, folder, keep=True, plugin_commands={})
    seen, began = Seen(), time.monotonic()

    async def look(_: object) -> None:
        seen.snapshot = await backend.observe()

    try:
        verdict = asyncio.run(play(Document(path, document.scenario, document.source), backend, afterwards=look))
        seen.failure = "" if verdict.outcome is Outcome.VALID else verdict.reason
    except SimkubeletError as error:
        seen.failure = str(error)
    seen.duration_s = time.monotonic() - began
    seen.events = list(backend.trace)
    if backend.kept is not None:
        node = backend.kept / "node-1"
        seen.log = (node / "logs" / "plugins" / "nvidia.log").read_text(errors="replace")
        specs = sorted((node / "root" / "run" / "cdi").glob("*.json"))
        seen.specs = tuple(json.loads(file.read_text()) for file in specs)
    return seen


def registered(seen: Seen) -> Iterator[Row]:
    found = [f"{event.resource} on {event.endpoint}" for event in seen.of(PluginRegistered)]
    told = ", ".join(found) or f"nothing; {seen.failure}"
    yield Row("register", bool(found), f"{told}; {seen.duration_s:.1f} s for all")


def listed(seen: Seen, hardware: Hardware) -> Iterator[Row]:
    latest = {event.resource: event for event in seen.of(DevicesListed)}
    for resource, uuids in hardware.devices.items():
        devices = latest.get(resource, DevicesListed("node-1", resource, (), ()))
        is_same = set(devices.healthy) == uuids
        told = f"{len(devices.healthy)} healthy, {len(devices.unhealthy)} unhealthy; NVML has {len(uuids)}"
        yield Row(f"list {resource}", is_same, told)


def allocated(seen: Seen) -> Iterator[Row]:
    pod = seen.snapshot.pods.get("probe") if seen.snapshot else None
    if pod is None:
        yield Row("allocate", False, seen.failure or "no pod")
        return
    ids = sorted(device for held in pod.held().values() for device in held)
    variables = pod.options["main"].envs if "main" in pod.options else {}
    told = ", ".join(f"{name}={value}" for name, value in sorted(variables.items()))
    yield Row("allocate", variables.get("NVIDIA_VISIBLE_DEVICES") == ",".join(ids), f"{', '.join(ids)}: {told}")


def subscribed(seen: Seen, hardware: Hardware) -> Iterator[Row]:
    lines = seen.log.splitlines()
    failed = [line for line in lines if any(text in line for text in FAILS_HEALTH)]
    too_old = [line for line in lines if "too old to support healthchecking" in line]
    count = sum(len(uuids) for uuids in hardware.devices.values()) if seen.snapshot else 0
    started = sum("leave a GPU healthy" in line for line in lines)
    is_right = not failed and started == len(hardware.devices)
    told = failed[0] if failed else f"{count - len(too_old)} of {count} devices watched, {started} event sets"
    yield Row("health", is_right, told)


def described(seen: Seen, hardware: Hardware) -> Iterator[Row]:
    """What the CDI specifications say, and whether the device nodes in them are those of this machine."""
    if not seen.specs:
        yield Row("CDI", False, seen.failure or "no specification was written")
    for spec in seen.specs:
        edits = [spec.get("containerEdits", {}), *(device["containerEdits"] for device in spec["devices"])]
        nodes = {node.get("hostPath", node["path"]) for edit in edits for node in edit.get("deviceNodes", ())}
        mounts = {mount["hostPath"] for edit in edits for mount in edit.get("mounts", ())}
        missing = sorted(
            {path for path in nodes if not is_device(Path(path))} | {path for path in mounts if not exists(path)}
        )
        names = {device["name"] for device in spec["devices"]}
        lacks = {uuid for uuids in hardware.devices.values() for uuid in uuids} - names
        is_right = not missing and (spec["kind"].rpartition("/")[2] != "gpu" or not lacks)
        told = f"{len(names)} devices, {len(nodes)} device nodes, {len(mounts)} mounts"
        yield Row(f"CDI {spec['kind']}", is_right, told + (f"; not here: {', '.join(missing)}" if missing else ""))


def is_device(path: Path) -> bool:
    return path.exists() and stat.S_ISCHR(path.stat().st_mode)


def exists(path: str) -> bool:
    return Path(path).exists()


if __name__ == "__main__":
    sys.exit(main())
