"""From a recording to the state of each GPU: the reverse of what the library answers from a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ..errors import InputError
from ..state import layout
from .recording import Recording
from .replay_fields import NUMBERS, NVLINK_GENERATIONS, PCI, TEXTS
from .replay_mig import fill_recorded_mig
from .survey import Survey
from .told import Told, put, put_all

_NO_THRESHOLD: Final = -1
_HIDDEN_BOARD: Final = 1 << 24
_PCIE_ERRORS: Final = 173
_NVLINK_VERSION: Final = "nvmlDeviceGetFieldValues 166"
_LEVELS: Final = {"board": 0, "pcie_switch": 10, "switch_tree": 20, "host_bridge": 30}
"""Members of the placement by the topology level up to which two GPUs have the same value in it."""


def header_of_recording(recording: Recording) -> layout.Header:
    """What the recorded host reported of its driver.

    Raises:
        InputError: an answer has another form than NVML gives it.
    """
    told = Told(recording.system.answers())
    header = layout.Header()
    with _forms_of_nvml(recording, "system", told):
        header.driver_version = told.text("nvmlSystemGetDriverVersion")
        header.nvml_version = told.text("nvmlSystemGetNVMLVersion")
        branch = told.of("nvmlSystemGetDriverBranch")
        header.driver_branch = str(branch["branch"] if isinstance(branch, dict) else branch or "").encode()
        put(header, "cuda_driver_version", told.number("nvmlSystemGetCudaDriverVersion_v2"))
    return header


@contextmanager
def _forms_of_nvml(recording: Recording, subject: str, told: Told) -> Iterator[None]:
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        place = recording.place(subject, told.call)
        raise InputError(f"{place}: {subject}: {told.call}: no answer such as NVML gives: {error}") from None


def states_of_recording(recording: Recording) -> Iterator[layout.GpuState]:
    """The state of each GPU as it was recorded; what NVML did not tell is as on a board that cannot.

    Raises:
        InputError: an answer has another form than NVML gives it.
    """
    survey = recording.survey()
    shared = _shared_levels(survey)
    for index, answers in enumerate(survey.gpus):
        told = Told(answers)
        with _forms_of_nvml(recording, f"gpus.{index}", told):
            state = _state(told)
        told = Told(survey.system)
        with _forms_of_nvml(recording, "system", told):
            put(state.nvlink, "bandwidth_mode", told.number("nvmlSystemGetNvlinkBwMode"))
        for member, values in shared.items():
            setattr(state.placement, member, values[index])
        yield state


def _state(told: Told) -> layout.GpuState:
    state = layout.GpuState()
    if told.of(PCI) is None:
        raise LookupError("it is missing")
    for member, call in TEXTS.items():
        setattr(state.identity, member, told.text(call))
    for (topic, member), (call, pick) in NUMBERS.items():
        put(getattr(state, topic), member, told.number(call, pick))
    _fill_lists(state, told)
    _fill_clocks(state, told)
    _fill_links(state, told)
    fill_recorded_mig(state, told)
    return state


def _fill_lists(state: layout.GpuState, told: Told) -> None:
    for threshold in range(len(state.thermal.threshold_c)):
        degrees = told.of(f"nvmlDeviceGetTemperatureThreshold {threshold}")
        put(state.thermal.threshold_c, threshold, _NO_THRESHOLD if degrees is None else degrees)
    for fan in range(state.fans.count):
        put(state.fans.percent, fan, told.number(f"nvmlDeviceGetFanSpeed_v2 {fan}"))
        put(state.fans.target_percent, fan, told.number(f"nvmlDeviceGetTargetFanSpeed {fan}"))
        if rpm := told.number("nvmlDeviceGetFanSpeedRPM"):
            put(state.fans, "max_rpm", round(rpm * 100 / max(1, state.fans.percent[0])))
        put(state.fans.is_manual, fan, told.number(f"nvmlDeviceGetFanControlPolicy_v2 {fan}"))
    for error, counters in enumerate(state.ecc.errors):
        for counter, locations in enumerate(counters):
            for location in range(len(locations)):
                put(locations, location, told.number(f"nvmlDeviceGetMemoryErrorCounter {error} {counter} {location}"))
    put_all(state.placement.cpu_mask, told.items("nvmlDeviceGetCpuAffinity 16"))
    nodes = told.items("nvmlDeviceGetMemoryAffinity 16 0")
    numbers = [word * 64 + bits.bit_length() - 1 for word, bits in enumerate(nodes) if bits]
    state.placement.numa_node = numbers[0] if numbers else -1
    if cluster := told.of("nvmlDeviceGetGpuFabricInfo"):
        put_all(state.fabric.cluster_uuid, cluster["clusterUuid"])
    for policy in range(len(state.counters.violation_ns)):
        lasted = told.number(f"nvmlDeviceGetViolationStatus {policy}", lambda status: status["violationTime"])
        put(state.counters.violation_ns, policy, lasted)
    for cause in range(len(state.remap.retired_pages)):
        state.remap.retired_pages[cause] = len(told.items(f"nvmlDeviceGetRetiredPages {cause}"))
    if not state.remap.is_supported:
        put(state.remap, "is_pending", told.number("nvmlDeviceGetRetiredPagesPendingStatus"))
    for error in range(len(state.counters.pcie_errors)):
        put(state.counters.pcie_errors, error, told.number(f"nvmlDeviceGetFieldValues {_PCIE_ERRORS + error}"))
    if mig := told.of("nvmlDeviceGetMigMode"):
        put(state.modes, "mig_current", mig[0])
        put(state.modes, "mig_pending", mig[1])


_CLOCKS: Final = {
    "current_mhz": "nvmlDeviceGetClockInfo",
    "maximum_mhz": "nvmlDeviceGetMaxClockInfo",
    "application_mhz": "nvmlDeviceGetApplicationsClock",
    "default_application_mhz": "nvmlDeviceGetDefaultApplicationsClock",
}


def _fill_clocks(state: layout.GpuState, told: Told) -> None:
    clocks = state.clocks
    for member, call in _CLOCKS.items():
        array = getattr(clocks, member)
        for domain in range(len(array)):
            put(array, domain, told.number(f"{call} {domain}"))
    for domain, name in enumerate(("Gpc", "Mem")):
        put(clocks.offset_mhz, domain, told.number(f"nvmlDeviceGet{name}ClkVfOffset"))
        put(clocks.offset_max_mhz, domain, told.number(f"nvmlDeviceGet{name}ClkMinMaxVfOffset", lambda ends: ends[1]))
    states = told.items("nvmlDeviceGetSupportedPerformanceStates")
    put(clocks, "performance_states", sum(1 << number for number in states))
    for position, memory in enumerate(told.items("nvmlDeviceGetSupportedMemoryClocks")):
        put(clocks.memory_mhz, position, memory)
        graphics = sorted(told.items(f"nvmlDeviceGetSupportedGraphicsClocks {memory}")) or [0]
        put(clocks.graphics_max_mhz, position, graphics[-1])
        if position == 0:
            put(clocks, "graphics_min_mhz", graphics[0])
            put(clocks, "graphics_step_khz", _step_khz(graphics))


def _step_khz(rising: Sequence[int]) -> int:
    """The step, which NVML's whole megahertz hide: a whole number of half megahertz."""
    if len(rising) < 2:
        return 0
    return round((rising[-1] - rising[0]) / (len(rising) - 1) * 2) * 500


def _fill_links(state: layout.GpuState, told: Told) -> None:
    for number, link in enumerate(state.links):
        active = told.of(f"nvmlDeviceGetNvLinkState {number}")
        if active is None:
            break
        state.nvlink.count = number + 1
        link.is_active = bool(active)
        version = told.number(f"nvmlDeviceGetNvLinkVersion {number}") or told.number(_NVLINK_VERSION)
        state.nvlink.version = NVLINK_GENERATIONS.get(version, state.nvlink.version)
        put(link, "remote_type", told.number(f"nvmlDeviceGetNvLinkRemoteDeviceType {number}"))
        if remote := told.of(f"nvmlDeviceGetNvLinkRemotePciInfo {number}"):
            for member, key in _REMOTE.items():
                put(link, member, remote[key])
        for counter in range(len(link.errors)):
            put(link.errors, counter, told.number(f"nvmlDeviceGetNvLinkErrorCounter {number} {counter}"))


_REMOTE: Final = {
    "remote_domain": "domain",
    "remote_bus": "bus",
    "remote_device": "device",
    "remote_device_id": "pciDeviceId",
}


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
