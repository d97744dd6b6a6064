from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from uuid import UUID

import pytest

from fakegpu import InputError, Load, Machine
from fakegpu.profiles.profile import parse_profile, profile_text

from .conftest import See


class TestModuleAndFabric:
    MODULE = """
n.nvmlInit()
device = n.nvmlDeviceGetHandleByIndex(0)
fields = (n.NVML_FI_DEV_POWER_INSTANT, n.NVML_FI_DEV_POWER_AVERAGE, n.NVML_FI_DEV_POWER_MIN_LIMIT,
    n.NVML_FI_DEV_POWER_MAX_LIMIT, n.NVML_FI_DEV_POWER_DEFAULT_LIMIT, n.NVML_FI_DEV_POWER_CURRENT_LIMIT,
    n.NVML_FI_DEV_POWER_REQUESTED_LIMIT, n.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION)
MODULE = 1
answers = n.nvmlDeviceGetFieldValues(device, [(field, MODULE) for field in fields])
print([answer.value.uiVal // 1000 if answer.nvmlReturn == 0 else f"error {answer.nvmlReturn}" for answer in answers])
"""
    FABRIC = """
n.nvmlInit()
for index in range(n.nvmlDeviceGetCount()):
    fabric = n.c_nvmlGpuFabricInfoV_t()
    n.nvmlDeviceGetGpuFabricInfoV(n.nvmlDeviceGetHandleByIndex(index), n.byref(fabric))
    print(fabric.cliqueId, bytes(fabric.clusterUuid).hex())
"""

    @pytest.fixture
    def machine(self, tmp_path: Path) -> Machine:
        return Machine.create(tmp_path / "node", "gb200", 2)

    def test_module_power_comes_from_the_profile(self, machine: Machine, see: See) -> None:
        assert see(machine, self.MODULE) == "[467, 467, 500, 2500, 2500, 2500, 2500, 'error 3']\n"

    def test_module_power_can_be_set(self, machine: Machine, see: See) -> None:
        machine.set_many(0, {"module_power_usage": 900_000, "module_power_limit": 2_000_000})

        assert see(machine, self.MODULE) == "[900, 900, 500, 2500, 2500, 2000, 2000, 'error 3']\n"

    def test_module_draws_what_its_gpu_draws_more(self, machine: Machine, see: See) -> None:
        machine.load(0, Load(gpu_percent=50))
        usage_w, *_ = json.loads(see(machine, self.MODULE).replace("'", '"'))

        assert usage_w == 467 + (1200 - 166) // 2

    def test_board_without_a_module_reports_none(self, tmp_path: Path, see: See) -> None:
        b200 = Machine.create(tmp_path / "b200", "b200", 1)

        assert see(b200, self.MODULE) == f"{['error 3'] * 8}\n"

    def test_fabric_comes_from_the_profile_and_can_be_set(self, machine: Machine, see: See) -> None:
        cluster = UUID("3d1b1c52-6f0e-4b57-8c1e-000000000007")
        machine.set_many(1, {"fabric_cluster": str(cluster), "fabric_clique": 32766})

        assert see(machine, self.FABRIC).split("\n") == [
            "2 00000001000000000000000000000001",
            f"32766 {cluster.hex}",
            "",
        ]

    def test_fabric_that_ends_at_the_server_has_no_cluster(self, tmp_path: Path, see: See) -> None:
        h100 = Machine.create(tmp_path / "h100", "h100-80gb", 1)

        assert see(h100, self.FABRIC) == f"0 {UUID(int=0).hex}\n"

    @pytest.mark.skipif(os.geteuid() != 0, reason="what NVML sets is for root")
    def test_root_limits_the_module(self, machine: Machine, see: See) -> None:
        class Limit(ctypes.Structure):
            _fields_ = [("version", ctypes.c_uint), ("scope", ctypes.c_uint), ("milliwatts", ctypes.c_uint)]

        nvml, device = ctypes.CDLL(str(machine.library)), ctypes.c_void_p()
        assert nvml.nvmlInit_v2() == nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0

        codes = [
            nvml.nvmlDeviceSetPowerManagementLimit_v2(device, ctypes.byref(Limit(0x200000C, 1, limit)))
            for limit in (1_500_000, 499_999, 2_500_001)
        ]

        assert codes == [0, 2, 2]
        assert see(machine, self.MODULE) == "[467, 467, 500, 2500, 2500, 1500, 1500, 'error 3']\n"

    @pytest.mark.parametrize(
        ("before", "after", "message"),
        [
            pytest.param("hasFabric: true", "hasFabric: false", "nvlink: clusterUuid and cliqueId need", id="fabric"),
            pytest.param("-000000000001", "", "nvlink.clusterUuid: String should match", id="no UUID"),
            pytest.param("limitMinW: 500", "limitMinW: 9000", "power.module: limits must rise", id="limits"),
        ],
    )
    def test_what_cannot_be_is_refused(self, before: str, after: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            parse_profile(profile_text("gb200").replace(before, after), "mine.yaml")
