"""A recorded machine comes back as it was, and is compared with others call by call."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fakegpu import HostError, InputError, Machine
from fakegpu.cli.main import main
from fakegpu.cli.record import Difference, ask, ask_fake, differences
from fakegpu.recording.recording import Recording, Samples, parse_recording
from fakegpu.recording.survey import Survey
from fakegpu.state import layout
from fakegpu.state.segment import Segment

Node = Callable[..., Machine]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Makes machines in folders of their own."""

    def make(name: str, *arguments: object, **options: object) -> Machine:
        return Machine.create(tmp_path / name, *arguments, **options)  # type: ignore[arg-type]

    return make


def again(recording: Recording, node: Node) -> Survey:
    """The answers of a machine made from a recording's file."""
    kept = parse_recording(recording.to_yaml(), "recorded.yaml")
    return ask_fake(node("again", kept))


RECORDED_ENERGY = "nvmlDeviceGetTotalEnergyConsumption"
ENERGY = {
    RECORDED_ENERGY,
    f"nvmlDeviceGetFieldValues {pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION}",
    f"nvmlDeviceGetFieldValues {pynvml.NVML_FI_DEV_ENERGY}",
}


def unlike(after: Survey, before: Survey) -> list[Difference]:
    """Answers that differ, except for the energy counters, which have continued from the one that is recorded."""
    found = list(differences(after, before, all_calls=True))
    # The other answers of the first machine came later: they may be ahead of a machine that has just been made.
    recorded = {f"gpu {number}": answers[RECORDED_ENERGY] for number, answers in enumerate(before.gpus)}
    assert all(one.fake >= recorded[one.subject] for one in found if one.call in ENERGY)
    return [one for one in found if one.call not in ENERGY]


def answers(survey: Survey, call: str) -> list[object]:
    return [gpu.get(call) for gpu in survey.gpus]


@pytest.mark.parametrize("profile", ["h100-80gb", "v100-16gb", "rtx-4090", "t4", "gb200"])
def test_recorded_machine_comes_back_with_every_answer(profile: str, node: Node) -> None:
    before = ask_fake(node("first", profile, 3))

    after = again(Recording.of(before), node)

    assert unlike(after, before) == []


def test_mix_of_models_comes_back(node: Node) -> None:
    before = ask_fake(node("first", gpus=[("h100-80gb", 2), ("l4", 2), ("a30", 2)]))

    after = again(Recording.of(before), node)

    assert unlike(after, before) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is told which instances there are")
def test_mig_devices_come_back(node: Node) -> None:
    machine = node("first", "h100-80gb", 2)
    machine.mig(1).set_mode(True)
    machine.mig(1).create("1g.10gb", "3g.40gb")
    before = ask_fake(machine)

    after = again(Recording.of(before), node)

    assert len([call for call, answer in before.gpus[1].items() if "mig" in call and str(answer)[:3] == "MIG"]) == 2
    assert unlike(after, before) == []


def test_figures_that_were_set_come_back(node: Node) -> None:
    machine = node("first", "a100-40gb", 2)
    machine.set_many(
        1,
        {
            "temperature": 71,
            "memory_temperature": 66,
            "power_usage": 311_000,
            "memory_used": 9 << 30,
            "utilization_gpu": 93,
            "clock_sm": 1350,
            "ecc_corrected": 4,
            "ecc_uncorrected": 2,
            "remapped_rows_uncorrected": 3,
            "pcie_replays": 17,
            "pcie_width": 8,
            "energy": 123_456,
            "compute_mode": 3,
            "power_limit": 250_000,
        },
    )
    before = ask_fake(machine)

    after = again(Recording.of(before), node)

    assert answers(before, "nvmlDeviceGetTemperature 0") == [33, 71]
    assert unlike(after, before) == []


# What is no figure of its own: what a board can do, how it is built, and what NVML tells in another way.
_KEPT = {
    "architecture",
    "c2c",
    "count",
    "has_encoder",
    "has_jpeg",
    "has_memory_sensor",
    "is_draining",  # nobody would see the GPU
    "has_ofa",
    "is_supported",
    "mig_current",
    "mig_pending",
    "mig_supported",
    "minor_number",
    "performance_state",
    "performance_states",
    "version",
}
DRAM, SRAM = 2, 7  # NVML_MEMORY_LOCATION_…
_TOPICS = ("pci", "memory", "thermal", "power", "utilization", "ecc", "remap", "modes", "nvlink", "fabric", "counters")


def change_every_number(part: ctypes.Structure | ctypes.Array[Any], salt: int = 1) -> int:
    """Gives each number in a part of the state another value, no two alike where that can be."""
    names = range(len(part)) if isinstance(part, ctypes.Array) else [field[0] for field in part._fields_]  # type: ignore[misc]
    for name in names:
        value = part[name] if isinstance(name, int) else getattr(part, name)
        salt += 1
        if isinstance(value, ctypes.Structure | ctypes.Array):
            salt = change_every_number(value, salt)
        elif name in _KEPT or not isinstance(value, int):
            continue
        elif isinstance(name, int):
            part[name] = value + salt % 90  # type: ignore[index]
        elif name.startswith("is_") or isinstance(part, layout.Modes):
            setattr(part, name, 1 - min(value, 1))
        else:
            setattr(part, name, value + salt % 90)
    return salt


def forget_what_hopper_hides(ecc: layout.Ecc) -> None:
    """Hopper counts errors of its DRAM and SRAM, and not of single caches."""
    for by_counter in ecc.errors:
        for by_location in by_counter:
            for location in range(len(by_location)):
                if location not in (DRAM, SRAM):
                    by_location[location] = 0


@pytest.mark.parametrize("profile", ["h100-80gb", "t4"])
def test_every_number_of_the_state_comes_back(profile: str, node: Node) -> None:
    machine = node("first", profile, 2)
    with Segment.open(machine.directory / "segment").change(0) as state:
        for topic in _TOPICS:
            change_every_number(getattr(state, topic))
        if profile.startswith("h100"):
            forget_what_hopper_hides(state.ecc)
    before = ask_fake(machine)

    after = again(Recording.of(before), node)

    assert before.gpus[0] != before.gpus[1]
    assert unlike(after, before) == []


def test_made_up_identities_hide_the_real_ones(node: Node) -> None:
    machine = node("first", "gb200", 2, seed="secret")
    machine.enter_process(0, os.getpid())
    before = ask_fake(machine)

    text = Recording.of(before, anonymise=True).to_yaml()
    after = ask_fake(node("again", parse_recording(text, "recorded.yaml")))

    for call in ("nvmlDeviceGetUUID", "nvmlDeviceGetSerial", "nvmlDeviceGetPdi"):
        for secret in answers(before, call):
            assert str(secret) not in text
    assert str(before.gpus[0]["nvmlDeviceGetGpuFabricInfo"]["clusterUuid"]) not in text
    assert len(set(answers(after, "nvmlDeviceGetUUID"))) == 2
    assert answers(after, "nvmlDeviceGetComputeRunningProcesses_v3") == [[], []]
    assert list(differences(after, before)) == []


def test_made_up_identities_are_the_same_each_time(node: Node) -> None:
    before = ask_fake(node("first", "t4", 2))

    one, other = (Recording.of(before, anonymise=True).survey() for _ in range(2))

    assert one == other


def test_comparison_tells_who_answers_what(node: Node) -> None:
    fake = ask_fake(node("fake", "l4", 2, seed="same"))
    machine = node("real", "l4", 2, seed="same")
    machine.set(1, "power_limit", 50_000)

    found = [str(difference) for difference in differences(fake, ask_fake(machine))]

    assert "gpu 1: nvmlDeviceGetPowerManagementLimit: fake 72000, here 50000" in found
    assert all(text.startswith("gpu 1: ") for text in found)


def test_comparison_leaves_out_what_moves_unless_asked(node: Node) -> None:
    fake = ask_fake(node("fake", "l4", 1))
    machine = node("real", "l4", 1)
    machine.set(0, "temperature", 70)
    real = ask_fake(machine)

    assert list(differences(fake, real)) == []
    calls = {difference.call for difference in differences(fake, real, all_calls=True)}
    assert {"nvmlDeviceGetTemperature 0", "nvmlDeviceGetUUID"} <= calls


def test_missing_gpu_is_one_difference(node: Node) -> None:
    fake, real = ask_fake(node("fake", "l4", 1, seed="s")), ask_fake(node("real", "l4", 2, seed="s"))

    gpus = [str(difference) for difference in differences(fake, real) if difference.subject == "gpu 1"]

    assert len(gpus) == 1
    assert gpus[0].startswith("gpu 1: all calls: fake 'no such GPU', here ")


def test_no_module_of_the_working_directory_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, node: Node
) -> None:
    machine, folder = node("one", "t4", 1), tmp_path / "of-somebody-else"
    folder.mkdir()
    (folder / "json.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(folder)

    assert len(ask_fake(machine).gpus) == 1


def test_no_nvml_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    with pytest.raises(HostError, match="NVML cannot be asked: NVML Shared Library Not Found") as caught:
        ask()

    assert "\n" not in str(caught.value)


def test_lost_gpu_cannot_be_recorded(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = node("first", "t4", 3)
    machine.fail(1, lost=True)
    for name, value in machine.environment().items():
        monkeypatch.setenv(name, value)

    assert main(["record"]) == 3
    assert "NVML gives no handle of GPU 1, so nothing can be recorded of it" in capsys.readouterr().err


def test_samples_are_the_csv_of_nvidia_smi() -> None:
    samples = Samples(interval_s=0.5, gpus=[{"power.draw": [70.5, 300], "pstate": [8, 0]}, {"power.draw": [60, 61]}])

    assert samples.to_csv().splitlines() == [
        "timestamp, index, power.draw, pstate",
        "0.000, 0, 70.5, 8",
        "0.000, 1, 60, [N/A]",
        "0.500, 0, 300, 0",
        "0.500, 1, 61, [N/A]",
    ]


def test_record_and_up_and_diff_from_the_command_line(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = node("first", "l4", 2)
    machine.set(0, "temperature", 61)
    for name, value in machine.environment().items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "recorded.yaml"

    assert main(["record", "-o", str(file)]) == 0
    assert main(["diff", str(file)]) == 0
    machine.set(1, "power_limit", 50_000)
    assert main(["diff", str(file)]) == 1
    assert "gpu 1: nvmlDeviceGetPowerManagementLimit: fake 72000, here 50000" in capsys.readouterr().out
    assert main(["up", "--profile", str(file), "--dir", str(tmp_path / "again")]) == 0
    assert [gpu.temperature_c for gpu in Machine.open(tmp_path / "again").gpus] == [61, 33]


def test_recorded_samples_are_replayed(node: Node) -> None:
    figures = {"temperature.gpu": [77.0, 77.0], "power.draw": [65.0, 65.0], "utilization.gpu": [50.0, 50.0]}
    samples = Samples(interval_s=1, gpus=[figures])
    recording = Recording.of(ask_fake(node("first", "l4", 1)), samples)

    machine = node("again", recording)

    assert [gpu.temperature_c for gpu in machine.gpus] == [77]
    machine.rest(0)
    assert [gpu.temperature_c for gpu in machine.gpus] == [33]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(("format: 1", "format: 2"), r"recorded\.yaml:2: recording\.format: ", id="format"),
        pytest.param(("\nsystem:", "\nsystems:"), r"recorded\.yaml:\d+: systems?: ", id="key"),
    ],
)
def test_wrong_recording_names_file_line_and_key(
    change: tuple[str, str], message: str, node: Node, tmp_path: Path
) -> None:
    text = Recording.of(ask_fake(node("first", "t4", 1))).to_yaml()
    file = tmp_path / "recorded.yaml"
    file.write_text(text.replace(*change, 1).replace("recording: {", "recording:\n  {", 1))

    with pytest.raises(InputError, match=message):
        node("again", str(file))


@pytest.mark.parametrize(
    ("before", "after", "call"),
    [
        pytest.param("nvmlDeviceGetTemperature 0: 33", "nvmlDeviceGetTemperature 0: [33]", "", id="list"),
        pytest.param("nvmlDeviceGetMinorNumber: 0", "nvmlDeviceGetMinorNumber: many", "", id="text"),
        pytest.param("bar1Total: ", "bar2Total: ", "nvmlDeviceGetBAR1MemoryInfo", id="member"),
        pytest.param("nvmlDeviceGetTemperature 0: 33", f"nvmlDeviceGetTemperature 0: {2**32 + 33}", "", id="33 bits"),
        pytest.param("nvmlDeviceGetPowerUsage: ", "nvmlDeviceGetPowerUsage: -", "", id="negative"),
        pytest.param("nvmlDeviceGetClockInfo 1: ", "nvmlDeviceGetClockInfo 1: 99999999", "", id="clock"),
        pytest.param("bar1Total: ", "bar1Total: 99999999999999", "nvmlDeviceGetBAR1MemoryInfo", id="65 bits"),
    ],
)
def test_answer_of_another_form_names_its_line(before: str, after: str, call: str, node: Node) -> None:
    text = Recording.of(ask_fake(node("first", "t4", 1))).to_yaml().replace(before, after)
    call = call or after.partition(":")[0]
    line = next(number for number, line in enumerate(text.splitlines(), 1) if f"{call}:" in line)

    with pytest.raises(InputError) as caught:
        node("again", parse_recording(text, "recorded.yaml"))

    assert str(caught.value).startswith(f"recorded.yaml:{line}: gpus.0: {call}: no answer such as NVML gives: ")
    assert "\n" not in str(caught.value)


def test_recording_without_an_address_says_so(node: Node) -> None:
    text = Recording.of(ask_fake(node("first", "t4", 2))).to_yaml().replace("GetPciInfo:", "GetNothing:")

    with pytest.raises(InputError, match=r"^recorded\.yaml:\d+: gpus\.0: nvmlDeviceGetPciInfo: .*: it is missing$"):
        node("again", parse_recording(text, "recorded.yaml"))


def test_answer_of_the_second_gpu_names_its_line(node: Node) -> None:
    machine = node("first", "t4", 2)
    machine.set(1, "temperature", 61)
    text = Recording.of(ask_fake(machine)).to_yaml().replace("Temperature 0: 61", f"Temperature 0: {2**32 + 61}")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "Temperature 0: 4294" in line)

    with pytest.raises(InputError, match=rf"^recorded\.yaml:{line}: gpus\.1: nvmlDeviceGetTemperature 0: "):
        node("again", parse_recording(text, "recorded.yaml"))


def test_driver_version_that_is_too_long_names_its_line(node: Node) -> None:
    call = "nvmlSystemGetDriverVersion"
    text = Recording.of(ask_fake(node("first", "t4", 1))).to_yaml().replace(f"{call}: 5", f"{call}: {'5' * 100}")

    with pytest.raises(InputError, match=rf"^recorded\.yaml:\d+: system: {call}: no answer such as NVML gives: "):
        node("again", parse_recording(text, "recorded.yaml"))


def test_columns_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="as many figures as the others"):
        Samples(interval_s=1, gpus=[{"power.draw": [70, 71], "pstate": [8]}])


def test_samples_that_cannot_be_replayed_leave_no_machine(node: Node, tmp_path: Path) -> None:
    samples = Samples(interval_s=1, gpus=[{"utilization.gpu": [70_000]}])
    recording = Recording.of(ask_fake(node("first", "t4", 1)), samples)

    with pytest.raises(InputError, match="out of range"):
        Machine.create(tmp_path / "again", recording)

    assert not (tmp_path / "again").exists()


def test_recording_has_its_own_number_of_gpus(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "recorded.yaml"
    file.write_text(Recording.of(ask_fake(node("first", "t4", 2))).to_yaml())

    with pytest.raises(InputError, match="cannot make 3 GPUs: the recording has 2"):
        node("again", str(file), 3)
    with pytest.raises(InputError, match="is the recording of a whole machine"):
        node("mix", gpus=[(str(file), 1)])
