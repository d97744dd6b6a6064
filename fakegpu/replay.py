"""From a recording to the state of each GPU: the reverse of what the library answers from a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from . import _layout
from .errors import InputError
from .recording import Recording
from .replay_fields import NUMBERS, NVLINK_GENERATIONS, PCI, TEXTS, Pick, same
from .replay_mig import fill_recorded_mig
from .survey import Answers, Survey

_NO_THRESHOLD: Final = -1
_HIDDEN_BOARD: Final = 1 << 24
_PCIE_ERRORS: Final = 173
_NVLINK_VERSION: Final = "nvmlDeviceGetFieldValues 166"
_LEVELS: Final = {"board": 0, "pcie_switch": 10, "switch_tree": 20, "host_bridge": 30}
"""Members of the placement by the topology level up to which two GPUs have the same value in it."""


def header_of_recording(recording: Recording) -> _layout.Header:
    """What the recorded host reported of its driver.

    Raises:
        InputError: an answer has another form than NVML gives it.
    """
    told = _Told(recording.system.answers())
    header = _layout.Header()
    with _forms_of_nvml("system"):
        header.driver_version = told.text("nvmlSystemGetDriverVersion")
        header.nvml_version = told.text("nvmlSystemGetNVMLVersion")
        branch = told.of("nvmlSystemGetDriverBranch")
        header.driver_branch = str(branch["branch"] if isinstance(branch, dict) else branch or "").encode()
        header.cuda_driver_version = told.number("nvmlSystemGetCudaDriverVersion_v2")
    return header


@contextmanager
def _forms_of_nvml(subject: str) -> Iterator[None]:
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"recording: {subject}: no answers such as NVML gives: {error}") from None


def states_of_recording(recording: Recording) -> Iterator[_layout.GpuState]:
    """The state of each GPU as it was recorded; what NVML did not tell is as on a board that cannot.

    Raises:
        InputError: an answer has another form than NVML gives it.
    """
    survey = recording.survey()
    shared = _shared_levels(survey)
    for index, answers in enumerate(survey.gpus):
        with _forms_of_nvml(f"gpus.{index}"):
            state = _state(answers)
            state.nvlink.bandwidth_mode = _Told(survey.system).number("nvmlSystemGetNvlinkBwMode")
        for member, values in shared.items():
            setattr(state.placement, member, values[index])
        yield state


def _state(answers: Answers) -> _layout.GpuState:
    told, state = _Told(answers), _layout.GpuState()
    if told.of(PCI) is None:
        raise LookupError(f"{PCI} is missing")
    for member, call in TEXTS.items():
        setattr(state.identity, member, told.text(call))
    for (topic, member), (call, pick) in NUMBERS.items():
        setattr(getattr(state, topic), member, told.number(call, pick))
    _fill_lists(state, told)
    _fill_clocks(state, told)
    _fill_links(state, told)
    fill_recorded_mig(state, answers)
    return state


class _Told:
    """Answers of one subject, where a refusal counts as nothing."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def of(self, call: str) -> Any:
        answer = self._answers.get(call)
        return None if isinstance(answer, dict) and answer.keys() == {"error"} else answer

    def text(self, call: str) -> bytes:
        return str(self.of(call) or "").encode()

    def number(self, call: str, pick: Pick = same) -> int:
        answer = self.of(call)
        return 0 if answer is None else int(pick(answer))

    def numbers(self, name: str, count: int) -> list[int]:
        return [self.number(f"{name} {position}") for position in range(count)]


def _fill_lists(state: _layout.GpuState, told: _Told) -> None:
    for threshold in range(len(state.thermal.threshold_c)):
        degrees = told.of(f"nvmlDeviceGetTemperatureThreshold {threshold}")
        state.thermal.threshold_c[threshold] = _NO_THRESHOLD if degrees is None else degrees
    for fan in range(state.fans.count):
        state.fans.percent[fan] = told.number(f"nvmlDeviceGetFanSpeed_v2 {fan}")
        state.fans.target_percent[fan] = told.number(f"nvmlDeviceGetTargetFanSpeed {fan}")
        if rpm := told.number("nvmlDeviceGetFanSpeedRPM"):
            state.fans.max_rpm = round(rpm * 100 / max(1, state.fans.percent[0]))
        state.fans.is_manual[fan] = told.number(f"nvmlDeviceGetFanControlPolicy_v2 {fan}")
    for error, counters in enumerate(state.ecc.errors):
        for counter, locations in enumerate(counters):
            for location in range(len(locations)):
                locations[location] = told.number(f"nvmlDeviceGetMemoryErrorCounter {error} {counter} {location}")
    for word, bits in enumerate(told.of("nvmlDeviceGetCpuAffinity 16") or ()):
        state.placement.cpu_mask[word] = bits
    nodes = told.of("nvmlDeviceGetMemoryAffinity 16 0") or ()
    numbers = [word * 64 + bits.bit_length() - 1 for word, bits in enumerate(nodes) if bits]
    state.placement.numa_node = numbers[0] if numbers else -1
    cluster = told.of("nvmlDeviceGetGpuFabricInfo")
    for position, byte in enumerate(cluster["clusterUuid"] if cluster else ()):
        state.fabric.cluster_uuid[position] = byte
    for policy in range(len(state.counters.violation_ns)):
        told_of = f"nvmlDeviceGetViolationStatus {policy}"
        state.counters.violation_ns[policy] = told.number(told_of, lambda status: status["violationTime"])
    for cause in range(len(state.remap.retired_pages)):
        state.remap.retired_pages[cause] = len(told.of(f"nvmlDeviceGetRetiredPages {cause}") or ())
    if not state.remap.is_supported:
        state.remap.is_pending = told.number("nvmlDeviceGetRetiredPagesPendingStatus")
    for error in range(len(state.counters.pcie_errors)):
        state.counters.pcie_errors[error] = told.number(f"nvmlDeviceGetFieldValues {_PCIE_ERRORS + error}")
    if mig := told.of("nvmlDeviceGetMigMode"):
        state.modes.mig_current, state.modes.mig_pending = mig


def _fill_clocks(state: _layout.GpuState, told: _Told) -> None:
    clocks = state.clocks
    domains = len(clocks.current_mhz)
    clocks.current_mhz[:] = told.numbers("nvmlDeviceGetClockInfo", domains)
    clocks.maximum_mhz[:] = told.numbers("nvmlDeviceGetMaxClockInfo", domains)
    clocks.application_mhz[:] = told.numbers("nvmlDeviceGetApplicationsClock", domains)
    clocks.default_application_mhz[:] = told.numbers("nvmlDeviceGetDefaultApplicationsClock", domains)
    for domain, name in enumerate(("Gpc", "Mem")):
        clocks.offset_mhz[domain] = told.number(f"nvmlDeviceGet{name}ClkVfOffset")
        clocks.offset_max_mhz[domain] = told.number(f"nvmlDeviceGet{name}ClkMinMaxVfOffset", lambda ends: ends[1])
    clocks.performance_states = sum(1 << number for number in told.of("nvmlDeviceGetSupportedPerformanceStates") or ())
    for position, memory in enumerate(told.of("nvmlDeviceGetSupportedMemoryClocks") or ()):
        graphics = sorted(told.of(f"nvmlDeviceGetSupportedGraphicsClocks {memory}") or (0,))
        clocks.memory_mhz[position] = memory
        clocks.graphics_max_mhz[position] = graphics[-1]
        if position == 0:
            clocks.graphics_min_mhz = graphics[0]
            clocks.graphics_step_khz = _step_khz(graphics)


def _step_khz(rising: Sequence[int]) -> int:
    """The step, which NVML's whole megahertz hide: a whole number of half megahertz."""
    if len(rising) < 2:
        return 0
    return round((rising[-1] - rising[0]) / (len(rising) - 1) * 2) * 500


def _fill_links(state: _layout.GpuState, told: _Told) -> None:
    for number, link in enumerate(state.links):
        active = told.of(f"nvmlDeviceGetNvLinkState {number}")
        if active is None:
            break
        state.nvlink.count = number + 1
        link.is_active = bool(active)
        version = told.number(f"nvmlDeviceGetNvLinkVersion {number}") or told.number(_NVLINK_VERSION)
        state.nvlink.version = NVLINK_GENERATIONS.get(version, state.nvlink.version)
        link.remote_type = told.number(f"nvmlDeviceGetNvLinkRemoteDeviceType {number}")
        if remote := told.of(f"nvmlDeviceGetNvLinkRemotePciInfo {number}"):
            link.remote_domain, link.remote_bus, link.remote_device = (
                remote["domain"],
                remote["bus"],
                remote["device"],
            )
            link.remote_device_id = remote["pciDeviceId"]
        link.errors[:] = [
            told.number(f"nvmlDeviceGetNvLinkErrorCounter {number} {counter}") for counter in range(len(link.errors))
        ]


def _shared_levels(survey: Survey) -> dict[str, list[int]]:
    """For each level of the topology, one number per GPU: equal where GPUs are no farther apart than that."""
    shared = {}
    for member, level in _LEVELS.items():
        values = [_HIDDEN_BOARD + index for index in range(len(survey.gpus))]
        for (one, other), answers in survey.pairs.items():
            distance = answers.get("nvmlDeviceGetTopologyCommonAncestor")
            if isinstance(distance, int) and distance <= level:
                values[other] = values[one]
        shared[member] = values
    return shared
