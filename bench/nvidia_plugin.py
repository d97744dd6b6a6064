"""The nvidia plugin compared with NVIDIA's own: times and memory of both on the same fake machine, alternately.

Both are started with the same command line, without options, in a mount namespace in which the kubelet's folder and
the PCI devices of ``/sys`` are the bench's. What each is asked comes from a client that takes 0.03 ms for a call
(`BareConnection`). In each turn a plugin is started, and then:

- ``start``: from before the process is made until its first device list has come.
- ``xid``: from before the XID is written until the next list has come.
- ``allocate``: the bare call, for one GPU.
- ``preferred``: the bare call, for 8 of the 16 GPUs.
- ``memory``: the resident memory after all of that.

Every figure is a JSON line with both medians and their ratio, ours to theirs; ``at_most`` is the ratio that it should
keep to. Exit status 3 where NVIDIA's plugin cannot be built (it needs Go) or no namespace can be had.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench._compared import programs
from fakegpu import Machine
from simkubelet.apis import deviceplugin as api
from simkubelet.host import NodeView, check_sandbox, sandboxed
from simkubelet.model.errors import HostError
from tests.support.bare_connection import BareConnection
from tests.support.plugin_kubelet import KubeletThread

ROOT: Final = Path(__file__).resolve().parent.parent
GPUS: Final = 16
TURNS: Final = int(os.environ.get("BENCH_TURNS", "15"))
XIDS: Final = 20
ALLOCATIONS: Final = 100
PREFERENCES: Final = 5
REST_S: Final = 0.01
"""Before the next XID, so that all are asleep again."""
AT_MOST: Final = {"start": 2.5, "xid": 1.5, "allocate": 2.5, "preferred": 1.0, "memory": 1.6}
UNITS: Final = {"memory": "mib"}
XID: Final = 79

Figures = dict[str, list[float]]


def took_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no VmRSS of process {pid}")


def turn(command: list[str], machine: Machine, kubelet: KubeletThread, figures: Figures) -> None:
    """Start a plugin, measure, and kill it."""
    folder = Path(api.DEVICE_PLUGIN_PATH)
    began = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            socket = folder / kubelet.registration().endpoint
            with BareConnection(socket) as connection:
                lists = connection.begin("ListAndWatch", api.Empty())
                first = api.ListAndWatchResponse.FromString(connection.message(lists))
                figures["start"].append((time.perf_counter() - began) * 1000)
                measure(connection, lists, [device.ID for device in first.devices], machine, figures)
            figures["memory"].append(resident_mib(process.pid))
        finally:
            process.kill()
    socket.unlink()


def measure(connection: BareConnection, lists: int, ids: list[str], machine: Machine, figures: Figures) -> None:
    one = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids[:1])])
    half = api.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=len(ids) // 2)
    best = api.PreferredAllocationRequest(container_requests=[half])
    # The first call of a kind finds caches cold.
    connection.call("Allocate", one)
    connection.call("GetPreferredAllocation", best)
    for _ in range(ALLOCATIONS):
        figures["allocate"].append(took_ms(lambda: connection.call("Allocate", one)))
    for _ in range(PREFERENCES):
        figures["preferred"].append(took_ms(lambda: connection.call("GetPreferredAllocation", best)))
    for number in range(XIDS):
        time.sleep(REST_S)
        began = time.perf_counter()
        machine.fail(number % GPUS, xid=XID)
        connection.message(lists)
        figures["xid"].append((time.perf_counter() - began) * 1000)
    for gpu in range(GPUS):
        machine.heal(gpu)


def inside(machine: Machine, nvidia: str) -> None:
    """Measure both, in the namespace."""
    # The plugins inherit it; the bench itself loads no NVML.
    os.environ.update(machine.environment())
    # The first start leaves compiled modules, as an installation does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    commands = {"simkubelet": [sys.executable, "-m", "plugin", "nvidia"], "nvidia": [nvidia]}
    measured: dict[str, Figures] = {name: defaultdict(list) for name in commands}
    with KubeletThread(Path(api.DEVICE_PLUGIN_PATH)) as kubelet:
        for number in range(TURNS + 1):
            for name, command in commands.items():
                # The first turn fills the caches of the file system.
                turn(command, machine, kubelet, measured[name] if number else defaultdict(list))
    for what, at_most in AT_MOST.items():
        medians = {name: statistics.median(figures[what]) for name, figures in measured.items()}
        unit = UNITS.get(what, "ms")
        line = {
            "bench": "nvidia_plugin",
            "what": what,
            "gpus": GPUS,
            "runs": len(measured["nvidia"][what]),
            **{f"{name}_{unit}": round(value, 3) for name, value in medians.items()},
            "ratio": round(medians["simkubelet"] / medians["nvidia"], 2),
            "at_most": at_most,
        }
        print(json.dumps(line), flush=True)


def main() -> int:
    if len(sys.argv) > 1:
        _, folder_of_machine, binary = sys.argv
        inside(Machine.open(folder_of_machine), binary)
        return 0
    nvidia = programs("tools.build.nvidia_plugin")[0]
    try:
        check_sandbox()
    except HostError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        sockets = Path(folder) / "sockets"
        sockets.mkdir()
        machine = Machine.create(Path(folder) / "machine", profile="h100-80gb", count=GPUS)
        places = {api.DEVICE_PLUGIN_PATH: sockets, "/sys/bus/pci/devices": machine.sys / "bus/pci/devices"}
        view = NodeView(Path(folder, "root"), Path(folder, "view"), places, kept=(Path(folder),))
        command = [sys.executable, "-m", "bench.nvidia_plugin", str(machine.directory), nvidia]
        status = subprocess.run(sandboxed(command, view), check=False).returncode
        machine.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
