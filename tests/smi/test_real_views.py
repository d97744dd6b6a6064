"""NVIDIA's own program finds everything it looks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from fakegpu import Load, Machine

from .conftest import Ask, Make, asking

PROFILES = ["h100-80gb", "a100-40gb", "t4", "rtx-4090", "b200"]
VIEWS = [
    (),
    ("-L",),
    ("-q",),
    ("-q", "-x"),
    ("-q", "-d", "ECC"),
    ("-q", "-d", "SUPPORTED_CLOCKS"),
    ("topo", "-m"),
    ("topo", "-p2p", "n"),
    ("topo", "-c", "0"),
    ("dmon", "-c", "1"),
    ("pmon", "-c", "1"),
    ("--query-compute-apps=pid,name,used_memory", "--format=csv"),
    ("--query-retired-pages=gpu_uuid,retired_pages.cause", "--format=csv"),
    ("--query-supported-clocks=mem,gr", "--format=csv"),
]


@pytest.mark.parametrize("profile", PROFILES)
def test_view_is_shown_whole(make: Make, every_real: Ask, profile: str) -> None:
    machine = make(profile)

    answers = {" ".join(view) or "table": every_real(machine, *view) for view in VIEWS}

    assert {view: answer.status for view, answer in answers.items() if answer.status != 0} == {}
    for answer in answers.values():
        assert not re.search(r"Uninitialized|Invalid Argument|Failed|Unknown Error|ERR!", answer.text), answer.text


def test_list_names_every_gpu(make: Make, every_real: Ask) -> None:
    machine = make(count=8)

    answer = every_real(machine, "-L")

    assert answer.lines == [f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})" for gpu in machine.gpus]


def test_table_shows_what_is_set(make: Make, every_real: Ask) -> None:
    machine = make(count=1)
    machine.set_many(0, {"temperature": 71, "memory_used": "40GiB", "utilization_gpu": 93, "power_usage": 512_000})

    answer = every_real(machine)

    assert "71C" in answer.text
    assert re.search(r"512W / +700W", answer.text)
    assert re.search(r"40960MiB / +81559MiB", answer.text)
    assert "93%" in answer.text


def test_report_as_xml_is_one_document(make: Make, every_real: Ask) -> None:
    machine = make(count=3)

    log = ElementTree.fromstring(every_real(machine, "-q", "-x").text)  # noqa: S314 - the program's own output

    assert log.findtext("attached_gpus") == "3"
    assert [gpu.findtext("uuid") for gpu in log.findall("gpu")] == [gpu.uuid for gpu in machine.gpus]
    assert log.findtext("gpu/temperature/gpu_temp") == f"{machine.gpu(0).temperature_c} C"


def test_links_to_switches_are_in_the_matrix(make: Make, every_real: Ask) -> None:
    machine = make(count=2)

    matrix, links = every_real(machine, "topo", "-m"), every_real(machine, "nvlink", "-s", "-i", "0")

    assert "NV18" in matrix.text
    assert sum("GB/s" in line for line in links.lines) == 18


def test_lost_gpu_is_reported_and_the_others_are_shown(make: Make, every_real: Ask) -> None:
    machine = make(count=2)
    machine.fail(0, lost=True)

    answer = every_real(machine, "-L")

    assert "Unable to determine the device handle for gpu 0000:1B:00.0: GPU is lost." in answer.text
    assert machine.gpu(1).uuid in answer.text
    assert every_real(machine).text.splitlines()[0] == (
        "Unable to determine the device handle for GPU0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU"
    )


def test_enforced_limit_is_shown(make: Make, every_real: Ask) -> None:
    machine = make(count=1)
    machine.set(0, "power_limit", 512_000)

    limit = every_real(machine, "--query-gpu=enforced.power.limit", "--format=csv,noheader")

    assert limit.lines == ["512.00 W"]


def test_process_of_a_mig_device_has_its_instances(
    make: Make, every_real: Ask, worker: subprocess.Popen[bytes]
) -> None:
    machine = make("a100-40gb", 1)
    machine.mig(0).create("1g.5gb", "2g.10gb")
    device = machine.mig(0).devices[1]
    machine.enter_process(device.uuid, worker.pid, 1 << 30)

    table = every_real(machine).text

    assert re.search(rf"\|    0 +{device.gpu_instance} +0 +{worker.pid} +C .*1024MiB \|", table), table
    assert re.search(r"\| +0MiB / 16383MiB +\|.*\n.*\n.*1024MiB / +4864MiB .*\n\| +\| +0MiB / +8191MiB ", table), table
    assert re.search(r"\| +N/A +Default \|\n.* Enabled \|", table), table


def test_profiles_of_a_gpu_without_mig_mode_are_listed_by_550(make: Make) -> None:
    machine, ask = make("a100-40gb", 2), asking("550")

    without = ask(machine, "mig", "-lgip")
    machine.mig(1).create("1g.5gb")
    mixed = ask(machine, "mig", "-lgip")

    assert (without.status, mixed.status) == (0, 0), without.text + mixed.text
    free = re.compile(r"\|   (\d)  MIG (\S+) +\d+ +(\d+)/(\d+)")
    assert len(free.findall(without.text)) > 10
    assert [line for line in free.findall(without.text) if line[2] != line[3]] == []
    assert [line for line in free.findall(mixed.text) if line[1] == "1g.5gb"] == [
        ("0", "1g.5gb", "7", "7"),
        ("1", "1g.5gb", "6", "7"),
    ]


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def test_process_is_listed_with_its_memory(make: Make, every_real: Ask, worker: subprocess.Popen[bytes]) -> None:
    machine = make(count=2)
    machine.enter_process(1, worker.pid, 10 << 30)

    table = every_real(machine)
    query = every_real(machine, "--query-compute-apps=pid,used_memory,gpu_uuid", "--format=csv,noheader")
    monitor = every_real(machine, "pmon", "-c", "1")

    assert re.search(rf"\|    1 +N/A +N/A +{worker.pid} +C .*10240MiB \|", table.text)
    assert query.lines == [f"{worker.pid}, 10240 MiB, {machine.gpu(1).uuid}"]
    assert str(worker.pid) in monitor.text


def test_own_process_name_is_shown(make: Make, every_real: Ask) -> None:
    machine = make(count=1)
    machine.enter_process(0, os.getpid(), 1 << 20)

    names = every_real(machine, "--query-compute-apps=name", "--format=csv,noheader").lines

    assert names == [_command_of(os.getpid())]


def _command_of(pid: int) -> str:
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:  # noqa: PTH123 - no path of ours
        return file.read().partition("\0")[0]


def test_load_moves_what_is_shown(make: Make, every_real: Ask) -> None:
    machine = make(count=2)
    machine.load(0, Load(gpu_percent=80))

    figures = every_real(
        machine, "--query-gpu=utilization.gpu,power.draw,pstate", "--format=csv,noheader,nounits"
    ).lines

    busy, idle = (line.split(", ") for line in figures)
    assert busy[0] == "80"
    assert idle[0] == "0"
    assert float(busy[1]) > 500 > float(idle[1])


def test_state_of_a_removed_machine_is_reported_in_one_line(make: Make, every_real: Ask) -> None:
    machine = make(count=1)
    Machine.open(machine.directory)
    (machine.directory / "segment").unlink()

    answer = every_real(machine, "-L")

    assert answer.status == 9
    assert "couldn't communicate with the NVIDIA driver" in answer.text


def test_memory_module_and_fabric_of_a_gb200_are_as_captured(make: Make) -> None:
    machine, ask = make("gb200", 1), asking("550")

    report = ask(machine, "-q").text

    sections = {
        "FB Memory Usage": {"Total": "189471 MiB", "Reserved": "742 MiB", "Used": "0 MiB", "Free": "188730 MiB"},
        "Module Power Readings": {
            "Average Power Draw": "467.00 W",
            "Current Power Limit": "2500.00 W",
            "Min Power Limit": "500.00 W",
        },
        "Fabric": {"CliqueId": "2", "ClusterUUID": "00000001-0000-0000-0000-000000000001"},
    }
    for section, lines in sections.items():
        shown = report.partition(f"    {section}\n")[2]
        for label, value in lines.items():
            assert re.search(rf"^ +{label} +: (.*)$", shown, re.MULTILINE)[1] == value, label  # type: ignore[index]
