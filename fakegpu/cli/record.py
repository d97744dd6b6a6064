"""Recording the machine that this process runs on, and comparing it with a fake one.

Each machine is asked by a process of its own, so that the fake library and NVIDIA's are never loaded side by side, and
a library that crashes takes nothing else with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import HostError
from ..recording.recording import Recording, Samples
from ..recording.survey import Answers, Survey
from ..recording.survey_calls import IDENTITY, MOVING

_FAKEGPU = __name__.removesuffix(".cli.record")

if TYPE_CHECKING:
    from ..machine.machine import Machine

_PATIENCE_S: Final = 300


def ask(environment: Mapping[str, str] | None = None) -> Survey:
    """Survey the NVML that a process with ``environment`` finds; this process' own environment if None.

    Raises:
        HostError: there is no NVML, it does not start, or asking it crashed.
    """
    command = [sys.executable, "-P", "-m", f"{_FAKEGPU}.recording.survey"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()
        raise HostError(f"NVML cannot be asked: {reason[-1] if reason else f'exit status {done.returncode}'}")
    return Survey.from_json(done.stdout)


def ask_fake(machine: Machine) -> Survey:
    """Survey a fake machine.

    Raises:
        HostError: asking it crashed.
    """
    return ask(dict(os.environ) | machine.environment())


def record(duration_s: float = 0, interval_s: float = 1, *, anonymise: bool = False) -> Recording:
    """Record the machine that this process runs on.

    Args:
        duration_s: how long to take samples of what moves; 0 for none.
        interval_s: time between two samples.
        anonymise: put made-up values in the place of UUIDs, serial numbers, host names and processes.

    Raises:
        HostError: there is no NVML, it has no GPU, or gives no handle of one.
    """
    survey = ask()
    if not survey.gpus:
        raise HostError("nothing to record: NVML finds no GPU on this machine")
    if mute := [str(index) for index, answers in enumerate(survey.gpus) if not answers]:
        raise HostError(f"NVML gives no handle of GPU {', '.join(mute)}, so nothing can be recorded of it: is it lost?")
    samples = sample(duration_s, interval_s) if duration_s else None
    return Recording.of(survey, samples, anonymise=anonymise)


def sample(duration_s: float, interval_s: float) -> Samples:
    """Take figures of every GPU in steps of ``interval_s``, at least one."""
    import pynvml

    pynvml.nvmlInit()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        series: list[dict[str, list[float]]] = [
            {key: [] for key, read in _FIGURES.items() if _reading(read, handle) is not None} for handle in handles
        ]
        start = time.monotonic()
        for number in range(max(1, round(duration_s / interval_s))):
            time.sleep(max(0.0, start + number * interval_s - time.monotonic()))
            for handle, figures in zip(handles, series, strict=True):
                for key, values in figures.items():
                    value = _reading(_FIGURES[key], handle)
                    values.append((values[-1] if values else 0) if value is None else value)
    finally:
        pynvml.nvmlShutdown()
    return Samples(interval_s=interval_s, gpus=series)


_Read = Callable[[Any, Any], float]
_MEMORY_TEMPERATURE: Final = 82  # NVML_FI_DEV_MEMORY_TEMP

_FIGURES: Final[Mapping[str, _Read]] = {
    "clocks.gr": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_GRAPHICS),
    "clocks.mem": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),
    "fan.speed": lambda nvml, gpu: nvml.nvmlDeviceGetFanSpeed(gpu),
    "memory.used": lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu, nvml.nvmlMemory_v2).used / (1 << 20),
    "power.draw": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "pstate": lambda nvml, gpu: nvml.nvmlDeviceGetPerformanceState(gpu),
    "temperature.gpu": lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
    "temperature.memory": lambda nvml, gpu: _field_value(nvml, gpu, _MEMORY_TEMPERATURE),
    "utilization.decoder": lambda nvml, gpu: nvml.nvmlDeviceGetDecoderUtilization(gpu)[0],
    "utilization.encoder": lambda nvml, gpu: nvml.nvmlDeviceGetEncoderUtilization(gpu)[0],
    "utilization.gpu": lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "utilization.memory": lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).memory,
}
"""What moves, by the column of nvidia-smi for it."""


def _field_value(nvml: Any, gpu: Any, field: int) -> int:
    (value,) = nvml.nvmlDeviceGetFieldValues(gpu, [field])
    if value.nvmlReturn != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(value.nvmlReturn)
    return int(value.value.uiVal)


def _reading(read: _Read, gpu: Any) -> float | None:
    import pynvml

    try:
        return read(pynvml, gpu)
    except pynvml.NVMLError:
        return None


@contextmanager
def fake_of(profile: str, count: int) -> Iterator[Machine]:
    """A fake machine for as long as the context lasts.

    Args:
        profile: name of a profile, or the file of a profile or of a recording.
        count: number of GPUs of a profile; a recording has its own.

    Raises:
        InputError: there is no such profile.
    """
    from ..machine.inventory import names_recording
    from ..machine.machine import Machine

    with tempfile.TemporaryDirectory(prefix="fakegpu-diff-") as folder:
        directory = Path(folder) / "node"
        machine = Machine.create(directory, profile, None if names_recording(profile) else count)
        try:
            yield machine
        finally:
            machine.close()


_ABSENT: Final = {"error": "not asked"}
_CLUSTER: Final = "clusterUuid"


@dataclass(frozen=True, slots=True)
class Difference:
    """One call that is answered differently.

    Attributes:
        subject: what it is about: ``system``, ``gpu 0`` or ``gpus 0 1``.
        call: name and arguments.
        fake: answer of the fake machine.
        real: answer of the machine it is compared with.
    """

    subject: str
    call: str
    fake: Any
    real: Any

    def __str__(self) -> str:
        return f"{self.subject}: {self.call}: fake {_shown(self.fake)}, here {_shown(self.real)}"


def differences(fake: Survey, real: Survey, *, all_calls: bool = False) -> Iterator[Difference]:
    """Compare call by call.

    Args:
        fake: answers of the fake machine.
        real: answers of the other one.
        all_calls: also compare what moves by itself and what names one board, such as temperatures and UUIDs.
    """
    yield from _of_subject("system", fake.system, real.system, all_calls)
    for index in range(max(len(fake.gpus), len(real.gpus))):
        yield from _of_subject(f"gpu {index}", _at(fake.gpus, index), _at(real.gpus, index), all_calls)
    for pair in sorted(fake.pairs.keys() | real.pairs.keys()):
        subject = f"gpus {pair[0]} {pair[1]}"
        yield from _of_subject(subject, fake.pairs.get(pair, {}), real.pairs.get(pair, {}), all_calls)


def _of_subject(subject: str, fake: Answers, real: Answers, all_calls: bool) -> Iterator[Difference]:
    if not fake or not real:
        if fake or real:
            yield Difference(subject, "all calls", _presence(fake), _presence(real))
        return
    for call in sorted(fake.keys() | real.keys()):
        one, other = fake.get(call, _ABSENT), real.get(call, _ABSENT)
        is_compared = all_calls or _kind(one) != _kind(other) or not call.startswith(MOVING + IDENTITY)
        if is_compared and _named(one, all_calls) != _named(other, all_calls):
            yield Difference(subject, call, one, other)


def _named(answer: Any, all_calls: bool) -> Any:
    """An answer without the member that names one cluster of servers, where names are not compared."""
    if all_calls or not isinstance(answer, dict):
        return answer
    return {member: value for member, value in answer.items() if member != _CLUSTER}


def _kind(answer: Any) -> Any:
    """A refusal is compared even where values are not."""
    return answer["error"] if isinstance(answer, dict) and answer.keys() == {"error"} else "value"


def _at(gpus: Any, index: int) -> Answers:
    return dict(gpus[index]) if index < len(gpus) else {}


def _presence(answers: Answers) -> str:
    return f"{len(answers)} answers" if answers else "no such GPU"


def _shown(answer: Any) -> str:
    kind = _kind(answer)
    text = kind if kind != "value" else repr(answer)
    return text if len(text) <= 60 else f"{text[:57]}..."
