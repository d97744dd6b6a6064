from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakegpu import Machine
from tests.support.patience import LIMIT_S

_IN_ITS_PROCESS = """
import pynvml
from plugin.nvml.nvml import EventType, NvmlError, NvmlReturn
from plugin.nvml.library import NvmlLibrary

nvml = NvmlLibrary()
nvml.init()
pynvml.nvmlInit()
"""


def _run(machine: Machine, program: str) -> None:
    command = [sys.executable, "-c", _IN_ITS_PROCESS + program]
    subprocess.run(command, env=os.environ | machine.environment(), check=True, timeout=LIMIT_S)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine.create(tmp_path / "machine", "h100-80gb", 2)


def test_gpus_are_reported_as_nvidia_ml_py_tells_them(machine: Machine) -> None:
    _run(
        machine,
        """
assert nvml.gpu_count() == pynvml.nvmlDeviceGetCount() == 2
assert nvml.driver_version() == pynvml.nvmlSystemGetDriverVersion()
for index in range(2):
    ours, theirs = nvml.gpu_by_index(index), pynvml.nvmlDeviceGetHandleByIndex(index)
    assert nvml.name(ours) == pynvml.nvmlDeviceGetName(theirs)
    assert nvml.uuid(ours) == pynvml.nvmlDeviceGetUUID(theirs)
    assert nvml.minor_number(nvml.gpu_by_uuid(nvml.uuid(ours))) == pynvml.nvmlDeviceGetMinorNumber(theirs) == index
    assert nvml.total_memory_bytes(ours) == pynvml.nvmlDeviceGetMemoryInfo(theirs).total
    assert nvml.compute_capability(ours) == pynvml.nvmlDeviceGetCudaComputeCapability(theirs)
    assert nvml.addresses_coherently(ours) == (pynvml.nvmlDeviceGetAddressingMode(theirs) == 2)
    assert nvml.mig_is_enabled(ours) == pynvml.nvmlDeviceGetMigMode(theirs)[0]
    assert nvml.max_mig_device_count(ours) == pynvml.nvmlDeviceGetMaxMigDeviceCount(theirs)
    assert nvml.is_mig_device(ours) == bool(pynvml.nvmlDeviceIsMigDeviceHandle(theirs)) == False
    assert nvml.supported_events(ours) == pynvml.nvmlDeviceGetSupportedEventTypes(theirs)
    assert "0000" + nvml.pci_bus_id(ours) == pynvml.nvmlDeviceGetPciInfo(theirs).busId.lower()
    for link in range(18):
        assert nvml.nvlink_is_enabled(ours, link) == pynvml.nvmlDeviceGetNvLinkState(theirs, link) == True
        remote = pynvml.nvmlDeviceGetNvLinkRemotePciInfo(theirs, link).busId
        assert "0000" + nvml.nvlink_remote_bus_id(ours, link) == remote.lower()
ours = [nvml.gpu_by_index(index) for index in range(2)]
theirs = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
assert nvml.common_ancestor(*ours) == pynvml.nvmlDeviceGetTopologyCommonAncestor(*theirs)
""",
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gets GPU instances")
def test_mig_devices_are_reported_as_nvidia_ml_py_tells_them(machine: Machine) -> None:
    machine.mig(0).set_mode(True)
    machine.mig(0).create("1g.10gb", "3g.40gb")

    _run(
        machine,
        """
ours, theirs = nvml.gpu_by_index(0), pynvml.nvmlDeviceGetHandleByIndex(0)
assert nvml.mig_is_enabled(ours)
for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
    try:
        profile = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(theirs, number, 1)
    except pynvml.NVMLError as error:
        try:
            nvml.gpu_instance_profile(ours, number)
        except NvmlError as ours_error:
            assert (ours_error.code, str(ours_error)) == (error.value, pynvml.nvmlErrorString(error.value))
        else:
            raise AssertionError(number)
    else:
        assert nvml.gpu_instance_profile(ours, number) == (profile.id, profile.memorySizeMB)
for index in range(2):
    mig, their_mig = nvml.mig_device_by_index(ours, index), pynvml.nvmlDeviceGetMigDeviceHandleByIndex(theirs, index)
    assert nvml.is_mig_device(mig)
    assert nvml.uuid(mig) == pynvml.nvmlDeviceGetUUID(their_mig)
    assert nvml.uuid(nvml.parent(mig)) == nvml.uuid(ours)
    attributes = pynvml.nvmlDeviceGetAttributes_v2(their_mig)
    assert nvml.mig_attributes(mig) == tuple(getattr(attributes, name) for name, _ in attributes._fields_)
    gi, ci = nvml.gpu_instance_id(mig), nvml.compute_instance_id(mig)
    assert (gi, ci) == (pynvml.nvmlDeviceGetGpuInstanceId(their_mig), pynvml.nvmlDeviceGetComputeInstanceId(their_mig))
    instance, their_instance = nvml.gpu_instance(ours, gi), pynvml.nvmlDeviceGetGpuInstanceById(theirs, gi)
    assert nvml.gpu_instance_profile_id(instance) == pynvml.nvmlGpuInstanceGetInfo(their_instance).profileId
    compute = nvml.compute_instance(instance, ci)
    their_compute = pynvml.nvmlGpuInstanceGetComputeInstanceById(their_instance, ci)
    profile_id = nvml.compute_instance_profile_id(compute)
    assert profile_id == pynvml.nvmlComputeInstanceGetInfo(their_compute).profileId
    profile = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(their_instance, 0, 0, 1)
    assert nvml.compute_instance_profile(instance, 0, 0) == profile.id
""",
    )


def test_event_names_gpu_and_xid(machine: Machine) -> None:
    _run(
        machine,
        f"""
from fakegpu import Machine
gpu, events = nvml.gpu_by_index(1), nvml.create_event_set()
nvml.register_events(gpu, EventType.XID_CRITICAL_ERROR, events)
Machine.open({str(machine.directory)!r}).fail(1, xid=79)
event = nvml.wait(events, 20000)
assert nvml.uuid(event.gpu) == nvml.uuid(gpu)
assert (event.event_type, event.data) == (EventType.XID_CRITICAL_ERROR, 79)
try:
    nvml.wait(events, 0)
except NvmlError as error:
    assert error.code == NvmlReturn.TIMEOUT
else:
    raise AssertionError
nvml.free_event_set(events)
nvml.shutdown()
""",
    )


def test_function_that_the_library_lacks_fails_with_nvmls_text(machine: Machine) -> None:
    _run(
        machine,
        """
assert nvml.has_function("nvmlInit_v2") and not nvml.has_function("nvmlNothing")
try:
    nvml._call("nvmlNothing")
except NvmlError as error:
    assert (error.code, str(error)) == (13, pynvml.nvmlErrorString(13))
else:
    raise AssertionError
""",
    )


def test_library_that_is_missing_is_an_error_of_nvml() -> None:
    program = """
from plugin.nvml.nvml import NvmlError
from plugin.nvml.library import NvmlLibrary
assert not NvmlLibrary().load("/nowhere/libnvidia-ml.so.1")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT_S)
