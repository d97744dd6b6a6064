"""Our nvidia-smi writes what NVIDIA's does, line by line, except for the time, its own version and explanations."""

from __future__ import annotations

import re
import subprocess

import pytest

from fakegpu import Load, Machine
from fakegpu.smi.query import PROPERTIES

from .conftest import Answer, Ask, Make

PROFILES = ["h100-80gb", "a100-40gb", "t4", "rtx-4090"]
# The real program writes the time of its own, and N/A without brackets.
NOT_COMPARED = {"timestamp", "temperature.memory"}
OWN = re.compile(r"^\| NVIDIA-SMI|^\w{3} \w{3} +\d+ |^Timestamp ")


def comparable(answer: Answer) -> list[str]:
    return [line for line in answer.lines if not OWN.match(line)]


@pytest.mark.parametrize("view", ["", "-L", "-q", "-q -d ECC", "-q -d TEMPERATURE,COMPUTE", "-q -i 1"])
@pytest.mark.parametrize("profile", PROFILES)
def test_view_equals_the_real_one(make: Make, real: Ask, ours: Ask, profile: str, view: str) -> None:
    machine = make(profile)

    assert comparable(ours(machine, *view.split())) == comparable(real(machine, *view.split()))


def test_wide_figures_are_cut_as_the_real_one_cuts_them(make: Make, real: Ask, ours: Ask) -> None:
    machine = make("gb200")

    assert comparable(ours(machine)) == comparable(real(machine))


@pytest.mark.parametrize("profile", PROFILES)
def test_matrix_equals_the_real_one(make: Make, real: Ask, ours: Ask, profile: str) -> None:
    machine = make(profile, 4)

    mine, theirs = ours(machine, "topo", "-m").lines, real(machine, "topo", "-m").lines

    assert mine[: mine.index("")] == theirs[: theirs.index("")]
    legend = [line.partition("=")[0] for line in theirs[theirs.index("") :]]
    assert [line.partition("=")[0] for line in mine[mine.index("") :]] == [
        line for line in legend if line.strip() or line == ""
    ][: len(mine) - mine.index("")]


@pytest.mark.parametrize("form", ["csv", "csv,noheader", "csv,nounits"])
@pytest.mark.parametrize("profile", PROFILES)
def test_properties_equal_the_real_ones(make: Make, real: Ask, ours: Ask, profile: str, form: str) -> None:
    machine = make(profile)
    wanted = ",".join(name for name in PROPERTIES if name not in NOT_COMPARED)

    asked = (f"--query-gpu={wanted}", f"--format={form}")

    assert ours(machine, *asked) == real(machine, *asked)


def test_busy_gpu_with_processes_equals_the_real_one(make: Make, real: Ask, ours: Ask) -> None:
    machine = make()
    with subprocess.Popen(["sleep", "300"]) as process:  # noqa: S607 - any program
        machine.enter_process(0, process.pid, 3 << 30)
        machine.enter_process(1, process.pid, 1 << 30, "both")
        machine.load(1, Load(gpu_percent=0, memory_bytes=7 << 30))
        machine.set_many(1, {"temperature": 66, "power_usage": 300_000})

        pairs = [(ours(machine, *view), real(machine, *view)) for view in ((), ("-q", "-d", "PIDS,MEMORY"))]
        process.kill()

    for mine, theirs in pairs:
        assert comparable(mine) == comparable(theirs)


class TestMig:
    @pytest.fixture
    def machine(self, make: Make, real: Ask) -> Machine:
        machine = make()
        assert real(machine, "-i", "0", "-mig", "1").status == 0
        return machine

    def test_created_instances_equal_the_real_ones(self, machine: Machine, real: Ask, ours: Ask) -> None:
        made = ours(machine, "mig", "-cgi", "1g.10gb,9", "-C")

        assert made.status == 0, made.text
        assert len(made.lines) == 4
        for view in ("mig -lgip", "mig -lgi", "-L", ""):
            assert comparable(ours(machine, *view.split())) == comparable(real(machine, *view.split())), view

    def test_processes_of_mig_devices_equal_the_real_ones(self, machine: Machine, real: Ask, ours: Ask) -> None:
        whole, small = machine.mig(0).create("3g.40gb", "1g.10gb", compute=False)
        machine.mig(0).create_compute(whole.id, 2)
        machine.mig(0).create_compute(whole.id, 1)
        machine.mig(0).create_compute(small.id, 1)
        with subprocess.Popen(["sleep", "300"]) as one, subprocess.Popen(["sleep", "300"]) as other:  # noqa: S607
            _, second, third = machine.mig(0).devices
            machine.enter_process(second.uuid, one.pid, 3 << 30)
            machine.enter_process(third.uuid, other.pid, 1 << 30, "mps")
            machine.enter_process(1, one.pid, 2 << 30)

            pairs = [(ours(machine, *view), real(machine, *view)) for view in ((), ("-q",))]
            one.kill()
            other.kill()

        table = pairs[0][1].text
        assert re.search(rf"\|    0 +{second.gpu_instance} +1 +{one.pid} +C .* 3072MiB \|", table), table
        assert re.search(rf"\|    0 +{third.gpu_instance} +0 +{other.pid} +M\+C .* 1024MiB \|", table), table
        assert re.search(rf"\|    1 +N/A +N/A +{one.pid} +C .* 2048MiB \|", table), table
        for mine, theirs in pairs:
            assert comparable(mine) == comparable(theirs)

    def test_creating_says_what_the_real_one_says(self, machine: Machine, make: Make, real: Ask, ours: Ask) -> None:
        twin = make(count=1)
        assert real(twin, "-mig", "1").status == 0

        assert ours(machine, "mig", "-cgi", "19,9", "-C") == real(twin, "mig", "-cgi", "19,9", "-C")

    def test_destroyed_instances_are_gone(self, machine: Machine, real: Ask, ours: Ask) -> None:
        assert ours(machine, "mig", "-cgi", "19,19").status == 0

        assert ours(machine, "mig", "-dgi").status == 0

        assert real(machine, "mig", "-lgi").text.strip() == ours(machine, "mig", "-lgi").text.strip()
        assert real(machine, "mig", "-lgi").status == ours(machine, "mig", "-lgi").status == 6

    def test_instance_with_compute_instances_is_in_use(self, machine: Machine, ours: Ask) -> None:
        assert ours(machine, "mig", "-cgi", "19", "-C").status == 0

        assert ours(machine, "mig", "-dgi").status == 19


def test_no_gpu_in_mig_mode_is_reported_alike(make: Make, real: Ask, ours: Ask) -> None:
    machine = make(count=1)

    assert ours(machine, "mig", "-lgi") == real(machine, "mig", "-lgi")
