"""NVIDIA's tools that look for what a driver installs, on fake GPUs under `fakegpu exec --driver-root`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fakegpu import Machine

pytestmark = [
    pytest.mark.nvidia_go,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is missing"),
    pytest.mark.skipif(not Path("/sys/bus/pci/devices").exists(), reason="a host without a PCI bus"),
]

Run = Callable[..., str]


@pytest.fixture
def run() -> Run:
    """Run a program that the session `nvidia` has built, named by its variable."""

    def run(machine: Machine, variable: str, *arguments: str) -> str:
        binary = os.environ.get(variable)
        if not binary:
            pytest.skip(f"{variable} is not set: run nox -s nvidia, which builds it")
        fakegpu = [sys.executable, "-P", "-m", "fakegpu", "exec", f"--dir={machine.directory}", "--driver-root", "--"]
        ended = subprocess.run([*fakegpu, binary, *arguments], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


@pytest.mark.parametrize(
    ("profile", "mode", "product"),
    [
        ("h100-80gb", "compute", "NVIDIA-H100-80GB-HBM3"),
        ("a100-40gb", "compute", "NVIDIA-A100-SXM4-40GB"),
        ("rtx-4090", "graphics", "NVIDIA-GeForce-RTX-4090"),
    ],
)
def test_labels_tell_what_the_gpus_are_for(tmp_path: Path, run: Run, profile: str, mode: str, product: str) -> None:
    machine = Machine.create(tmp_path / "node", profile, 2)
    labels, product_name = tmp_path / "labels", tmp_path / "product_name"
    product_name.write_text("DGX\n")

    options = [f"--output-file={labels}", f"--machine-type-file={product_name}", "--use-node-feature-api=false"]
    run(machine, "SIMKUBELET_GPU_FEATURE_DISCOVERY", "--oneshot", *options)

    told = dict(line.split("=", 1) for line in labels.read_text().split())
    assert (told["nvidia.com/gpu.mode"], told["nvidia.com/gpu.product"]) == (mode, product)
    assert (told["nvidia.com/gpu.count"], told["nvidia.com/gpu.machine"]) == ("2", "DGX")


def test_cdi_specification_has_the_devices_and_the_drivers_files(tmp_path: Path, run: Run) -> None:
    machine = Machine.create(tmp_path / "node", "h100-80gb", 2)
    machine.mig(1).create("1g.10gb")

    spec = json.loads(run(machine, "SIMKUBELET_NVIDIA_CTK", "cdi", "generate", "--format=json"))

    nodes = {
        device["name"]: [node["path"] for node in device["containerEdits"]["deviceNodes"]] for device in spec["devices"]
    }
    assert nodes["0"] == nodes[machine.gpu(0).uuid] == ["/dev/nvidia0"]
    assert nodes["1:0"] == ["/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap255", "/dev/nvidia-caps/nvidia-cap256"]
    mounted = {Path(mount["containerPath"]).name for mount in spec["containerEdits"]["mounts"]}
    version = machine.driver_version
    assert {f"libcuda.so.{version}", f"libnvidia-ml.so.{version}", "nvidia-smi"} <= mounted
