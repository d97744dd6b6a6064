"""Fed in: NVML's numbers and sizes; observed: the names of MIG profiles."""

from __future__ import annotations

import pytest

from plugin.nvidia.discovery.mig_profile import MigProfile

_A100_40GB = 40536 << 20
_H100_80GB = 81559 << 20


@pytest.mark.parametrize(
    ("gpu_instance", "compute_instance", "memory_mib", "gpu_memory", "name"),
    [
        (0, 0, 4864, _A100_40GB, "1g.5gb"),
        (1, 1, 9856, _A100_40GB, "2g.10gb"),
        (4, 4, 40192, _A100_40GB, "7g.40gb"),
        (7, 0, 4864, _A100_40GB, "1g.5gb+me"),
        (9, 0, 9856, _A100_40GB, "1g.10gb"),
        (13, 0, 4864, _A100_40GB, "1g.5gb-me"),
        (15, 0, 4864, _A100_40GB, "1g.5gb+me.all"),
        (10, 0, 9984, _H100_80GB, "1g.10gb+gfx"),
        (2, 2, 40448, _H100_80GB, "3g.40gb"),
        (2, 0, 40448, _H100_80GB, "1c.3g.40gb"),
        (2, 7, 40448, _H100_80GB, "1c.3g.40gb"),
        (0, 0, 0, 0, "1g.0gb"),
    ],
)
def test_profile_is_named_by_slices_and_memory(
    gpu_instance: int, compute_instance: int, memory_mib: int, gpu_memory: int, name: str
) -> None:
    assert str(MigProfile.of(gpu_instance, compute_instance, memory_mib, gpu_memory)) == name


@pytest.mark.parametrize(
    ("compute", "gpu", "is_possible"),
    [(1, 1, True), (2, 1, False), (1, 2, True), (2, 3, True), (3, 4, False), (4, 7, True), (6, 7, False)],
)
def test_compute_instance_has_all_or_about_half_at_most(compute: int, gpu: int, is_possible: bool) -> None:
    assert MigProfile(compute, gpu, 5, "").is_possible is is_possible
