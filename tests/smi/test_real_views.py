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

from .conftest import Ask, Make

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
def test_view_is_shown_whole(make: Make, real: Ask, profile: str) -> None:
    machine = make(profile)

    answers = {" ".join(view) or "table": real(machine, *view) for view in VIEWS}

    assert {view: answer.status for view, answer in answers.items() if answer.status != 0} == {}
    for answer in answers.values():
        assert not re.search(r"Uninitialized|Invalid Argument|Failed|Unknown Error|ERR!", answer.text), answer.text


def test_list_names_every_gpu(make: Make, real: Ask) -> None:
    machine = make(count=8)

    answer = real(machine, "-L")

    assert answer.lines == [f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})" for gpu in machine.gpus]


def test_table_shows_what_is_set(make: Make, real: Ask) -> None:
    machine = make(count=1)
    machine.set_many(0, {"temperature": 71, "memory_used": "40GiB", "utilization_gpu": 93, "power_usage": 512_000})

    answer = real(machine)

    assert "71C" in answer.text
    assert "512W / 700W" in answer.text
    assert "40960MiB / 81559MiB" in answer.text
    assert "93%" in answer.text


def test_report_as_xml_is_one_document(make: Make, real: Ask) -> None:
    machine = make(count=3)

    log = ElementTree.fromstring(real(machine, "-q", "-x").text)  # noqa: S314 - the program's own output

    assert log.findtext("attached_gpus") == "3"
    assert [gpu.findtext("uuid") for gpu in log.findall("gpu")] == [gpu.uuid for gpu in machine.gpus]
    assert log.findtext("gpu/temperature/gpu_temp") == f"{machine.gpu(0).temperature_c} C"


def test_links_to_switches_stand_in_the_matrix(make: Make, real: Ask) -> None:
    machine = make(count=2)

    matrix, links = real(machine, "topo", "-m"), real(machine, "nvlink", "-s", "-i", "0")

    assert "NV18" in matrix.text
    assert sum("GB/s" in line for line in links.lines) == 18


def test_lost_gpu_is_told_and_the_others_are_shown(make: Make, real: Ask) -> None:
    machine = make(count=2)
    machine.fail(0, lost=True)

    answer = real(machine, "-L")

    assert "Unable to determine the device handle" in answer.text
    assert machine.gpu(1).uuid in answer.text


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def test_process_is_listed_with_its_memory(make: Make, real: Ask, worker: subprocess.Popen[bytes]) -> None:
    machine = make(count=2)
    machine.enter_process(1, worker.pid, 10 << 30)

    table = real(machine)
    query = real(machine, "--query-compute-apps=pid,used_memory,gpu_uuid", "--format=csv,noheader")
    monitor = real(machine, "pmon", "-c", "1")

    assert re.search(rf"\|    1 +N/A +N/A +{worker.pid} +C .*10240MiB \|", table.text)
    assert query.lines == [f"{worker.pid}, 10240 MiB, {machine.gpu(1).uuid}"]
    assert str(worker.pid) in monitor.text


def test_own_process_name_is_shown(make: Make, real: Ask) -> None:
    machine = make(count=1)
    machine.enter_process(0, os.getpid(), 1 << 20)

    names = real(machine, "--query-compute-apps=name", "--format=csv,noheader").lines

    assert names == [_command_of(os.getpid())]


def _command_of(pid: int) -> str:
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:  # noqa: PTH123 - no path of ours
        return file.read().partition("\0")[0]


def test_load_moves_what_is_shown(make: Make, real: Ask) -> None:
    machine = make(count=2)
    machine.load(0, Load(gpu_percent=80))

    figures = real(machine, "--query-gpu=utilization.gpu,power.draw,pstate", "--format=csv,noheader,nounits").lines

    busy, idle = (line.split(", ") for line in figures)
    assert busy[0] == "80"
    assert idle[0] == "0"
    assert float(busy[1]) > 500 > float(idle[1])


def test_state_of_a_removed_machine_is_told_in_one_line(make: Make, real: Ask) -> None:
    machine = make(count=1)
    Machine.open(machine.directory)
    (machine.directory / "segment").unlink()

    answer = real(machine, "-L")

    assert answer.status == 9
    assert "couldn't communicate with the NVIDIA driver" in answer.text
