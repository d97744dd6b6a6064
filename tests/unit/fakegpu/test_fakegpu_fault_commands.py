"""`fakegpu fail, heal, unplug, plug, fault …` and `fakegpu mig …`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fakegpu import Load, Machine, Pattern
from fakegpu.cli.main import main


@pytest.fixture
def run(machine: Machine, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(machine, capsys)


class Run:
    """Commands on one machine: exit status, standard output, standard error."""

    def __init__(self, machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory = machine.directory
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "--dir", str(self._directory)])
        return status, *self._capsys.readouterr()

    def faults(self) -> dict[str, list[dict[str, object]]]:
        status, output, _ = self("fault", "list", "-o", "json")
        assert status == 0
        listing: dict[str, list[dict[str, object]]] = json.loads(output)
        return listing


def test_mig_devices_are_made_listed_and_destroyed(run: Run, machine: Machine) -> None:
    assert run("mig", "create", "0", "1g.10gb", "3g.40gb") == (
        0,
        "GPU 0 GPU instance  1: MIG 3g.40gb at 0:4\nGPU 0 GPU instance 13: MIG 1g.10gb at 6:1\n",
        "",
    )
    listing = json.loads(run("mig", "list", "-o", "json")[1])
    assert [(row["gpu"], row["index"], row["name"], row["gpu_instance"]) for row in listing] == [
        (0, 0, "3g.40gb", 1),
        (0, 1, "1g.10gb", 13),
    ]
    assert listing[0]["uuid"] in run("mig", "list")[1]
    assert "1g.20gb      id 15  free 1/4  {0,2,4,6}:2\n" in run("mig", "profiles", "0")[1]
    assert run("mig", "destroy", "0", "13") == (0, "", "")
    assert [instance.id for instance in machine.mig(0).instances] == [1]
    assert run("mig", "destroy", "0") == (0, "", "")
    assert machine.mig(0).instances == ()


def test_mig_mode_may_wait_for_a_reset(run: Run, machine: Machine) -> None:
    assert run("mig", "mode", "1", "on", "--pending")[0] == 0
    assert machine.mig(1).mode == (False, True)
    assert run("mig", "reset", "1")[0] == 0
    assert machine.mig(1).mode == (True, True)
    assert run("mig", "mode", "1", "off")[0] == 0
    assert machine.mig(1).mode == (False, False)


def test_everything_that_affects_a_gpu_has_an_option(run: Run, machine: Machine) -> None:
    machine.mig(1).create("1g.10gb")
    for options in (
        ["--xid", "43", "--gi", "13", "--ci", "0"],
        ["--ecc-corrected", "2"],
        ["--ecc-uncorrected", "1"],
        ["--retire", "1"],
        ["--hot"],
        ["--links-down", "0,3"],
    ):
        assert run("fail", "1", *options) == (0, "", ""), options

    state = machine._segment.read(1)
    assert (state.ecc.errors[0][0][2], state.ecc.errors[1][0][2]) == (2, 1)
    assert (state.fault.is_throttled, state.fault.links_down, state.remap.uncorrected_rows) == (1, 0b1001, 1)
    assert run("fail", "1", "--lost", "--xid", "79") == (0, "", "")
    assert machine.gpu(1).health == (
        "lost, xid 79, hot, links 0 3 down, ecc corrected 2, ecc uncorrected 1, repair pending"
    )
    assert run("heal", "1") == (0, "", "")
    assert machine.gpu(1).health == "ok"
    assert machine._segment.read(1).fault.links_down == 0


def test_retirement_reports_its_xid_once(run: Run, machine: Machine) -> None:
    assert run("fail", "1", "--retire", "1", "--xid", "63") == (0, "", "")
    fault = machine._segment.read(1).fault
    assert (fault.last_xid, fault.xid_count) == (63, 1)

    assert run("fail", "1", "--retire", "1", "--xid", "94") == (0, "", "")
    assert machine._segment.read(1).fault.xid_count == 3


def test_plans_and_rules_are_listed_and_cleared(run: Run, machine: Machine) -> None:
    assert run("fail", "0", "--xid", "13", "--after", "1h", "--every", "5s", "--times", "9") == (0, "plan 1\n", "")
    assert run("heal", "0", "--after", "2h") == (0, "plan 2\n", "")
    assert run("fault", "slow", "nvmlDeviceGet*", "p50=1ms,p99=20ms", "--gpu", "3") == (0, "rule 3\n", "")
    assert run("fault", "error", "nvmlDeviceGetName", "UNKNOWN", "--chance", "0.5", "--for", "1h")[1] == "rule 4\n"
    assert run("fault", "init", "DRIVER_NOT_LOADED", "--times", "3") == (0, "rule 5\n", "")
    assert run("fault", "waits", "stick") == (0, "", "")

    listing = run.faults()

    assert [(plan["kind"], plan["every_s"], plan["left"]) for plan in listing["plans"]] == [
        ("xid", 5.0, 9),
        ("heal", None, 1),
    ]
    assert [(rule["function"], rule["error"], rule["gpu"]) for rule in listing["rules"]] == [
        ("nvmlDeviceGet*", 0, 3),
        ("nvmlDeviceGetName", 999, None),
        ("nvmlInit", 9, None),
    ]
    assert listing["waitsAreStuck"]
    assert run("fault", "clear", "4") == (0, "", "")
    assert len(run.faults()["rules"]) == 2
    machine.fail(2, lost=True)
    assert run("heal", "--all") == (0, "", "")
    assert run.faults() == {"active": [], "rules": [], "plans": [], "waitsAreStuck": False}
    assert machine.gpu(2).health == "ok"


def test_gpu_is_unplugged_and_plugged(run: Run, machine: Machine) -> None:
    assert run("unplug", "2") == (0, "", "")
    assert not (machine.dev / "nvidia2").exists()
    assert run("plug", "2") == (0, "", "")
    assert (machine.dev / "nvidia2").exists()


USES: dict[str, Callable[[Machine], object]] = {
    "load": lambda machine: machine.load(1, Load(gpu_percent=80, memory_bytes=1 << 30)),
    "pattern": lambda machine: machine.load(1, Load(pattern=Pattern.WAVE)),
    "process": lambda machine: machine.enter_process(1, os.getpid(), 1 << 30),
    "mig": lambda machine: machine.mig(1).create("1g.10gb"),
    "mig process": lambda machine: machine.enter_process(
        (machine.mig(1).create("1g.10gb"), machine.mig(1).devices[0].uuid)[1], os.getpid(), 1 << 30
    ),
}
BREAKS = {"lost": ["fail", "1", "--lost", "--xid", "79"], "unplugged": ["unplug", "1"]}
COMMANDS = {
    "list": ["list"],
    "list as JSON": ["list", "-o", "json"],
    "set": ["set", "1", "temperature=50"],
    "set the NUMA node": ["set", "0", "numa_node=1"],
    "load": ["load", "all"],
    "load stop": ["load", "all", "--stop"],
    "fail": ["fail", "1", "--xid", "48"],
    "hot": ["fail", "1", "--hot"],
    "lost again": ["fail", "1", "--lost"],
    "unplug": ["unplug", "1"],
    "plug": ["plug", "1"],
    "heal": ["heal", "1"],
    "heal all": ["heal", "--all"],
    "fault": ["fault", "slow", "nvmlInit", "1ms", "--gpu", "1"],
    "mig list": ["mig", "list"],
    "mig mode": ["mig", "mode", "1", "on"],
    "mig destroy": ["mig", "destroy", "1"],
    "cdi": ["cdi"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_broken_gpu_in_use_takes_every_command(
    run: Run, machine: Machine, use: Callable[[Machine], object], broken: list[str], command: list[str]
) -> None:
    use(machine)
    assert run(*broken) == (0, "", "")

    status, _, error = run(*command)

    assert (status, error) == (0, "")
    assert run("heal", "--all") == (0, "", "")
    assert [gpu.health for gpu in machine.gpus] == ["ok"] * 4
    assert (machine.dev / "nvidia1").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fail", "0"], "nothing to fail: give --xid N, --lost, or another"),
        (["fail", "0", "--hot", "--after", "soon"], "'soon' is no duration: write 500ms, 30s"),
        (["fail", "0", "--links-down", "x"], "--links-down x: write 0,3 or all"),
        (["fail", "9", "--hot"], "no GPU 9"),
        (["heal"], "heal which? Give a GPU, or --all"),
        (["fault", "slow", "nvmlFly", "1ms"], "no NVML function 'nvmlFly'"),
        (["fault", "error", "nvmlInit", "OOPS"], "no NVML error 'OOPS'"),
        (["fault", "clear", "7"], "no rule or plan 7: there are none"),
        (["mig", "create", "0", "9g.1gb"], "no MIG profile '9g.1gb'"),
        (["mig", "destroy", "0", "3"], "no GPU instance 3: it has none"),
    ],
)
def test_mistake_is_one_line(run: Run, arguments: list[str], message: str) -> None:
    status, output, error = run(*arguments)

    assert (status, output, error.count("\n")) == (2, "", 1)
    assert error.startswith("error: ")
    assert message in error


def test_mig_on_a_model_without_it_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Machine.create(tmp_path / "t4", "t4", 1).close()

    assert main(["mig", "create", "0", "1g.10gb", "--dir", str(tmp_path / "t4")]) == 2
    assert capsys.readouterr().err == "error: GPU 0: Tesla T4 has no MIG\n"
    assert main(["mig", "list", "-o", "json", "--dir", str(tmp_path / "t4")]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_all_faults_are_listed_with_the_command_that_ends_each(run: Run, machine: Machine) -> None:
    assert run("fault", "list")[1] == "no faults\n"
    run("fail", "1", "--xid", "79", "--lost")
    run("fail", "2", "--hot")
    run("fail", "2", "--ecc-uncorrected", "3")
    run("fail", "3", "--links-down", "0,3")
    run("fail", "3", "--links-down", "1,2", "--after", "2h")
    run("fail", "0", "--xid", "48", "--after", "1h", "--every", "5s", "--times", "3")
    run("fault", "error", "nvmlDeviceGetMemoryInfo", "UNKNOWN", "--every", "3", "--gpu", "2")
    run("fault", "waits", "stick")

    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in run("fault", "list")[1].splitlines()]

    end = f" --dir {machine.directory}"
    assert all(row[3].endswith(end) for row in rows if row)
    assert [[*row[:3], row[3].removesuffix(end)] for row in rows if row] == [
        ["1", "lost", "now", "fakegpu heal 1"],
        ["1", "xid 79", "now", "fakegpu heal 1"],
        ["2", "hot", "now", "fakegpu heal 2"],
        ["2", "ecc uncorrected 3", "now", "fakegpu heal 2"],
        ["3", "links 0 3 down", "now", "fakegpu heal 3"],
        ["any", "waits for events hang", "now", "fakegpu fault waits release"],
        ["2", "nvmlDeviceGetMemoryInfo fails with UNKNOWN", "now, every 3th call", "fakegpu fault clear 3"],
        ["0", "xid 48", "in 3600 s, every 5 s, 3 left", "fakegpu fault clear 2"],
        ["3", "links down 1 2", "in 7200 s", "fakegpu fault clear 1"],
    ]
    listed = json.loads(run("fault", "list", "-o", "json")[1])
    assert listed["active"][0] == {"gpu": 1, "faults": ["lost", "xid 79"]}


def test_state_of_a_gpu_has_all_its_faults(run: Run, machine: Machine) -> None:
    run("set", "2", "temperature=95")
    run("fail", "1", "--xid", "79", "--lost")
    run("fail", "3", "--retire", "1")

    assert [gpu.health for gpu in machine.gpus] == ["ok", "lost, xid 79", "95 °C", "xid 63, repair pending"]
    assert "lost, xid 79" in run("list")[1]
    run("heal", "1")
    run("unplug", "1")
    run("set", "2", "temperature=40")
    run("heal", "3")
    assert [gpu.health for gpu in machine.gpus] == ["ok", "unplugged", "ok", "ok"]
