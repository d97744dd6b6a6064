"""From a recording to the state of each GPU, MIG included: the reverse of what the library answers from a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ..errors import InputError
from ..profiles.mig_profiles import KINDS
from ..state import layout
from .recording import Recording
from .replay_fields import NUMBERS, NVLINK_GENERATIONS, PCI, TEXTS, RecordedAnswers, put, put_all
from .survey import Survey
from .survey_calls import INSTANCES, PLACEMENTS

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
    answers = RecordedAnswers(recording.system.answers())
    header = layout.Header()
    with _forms_of_nvml(recording, "system", answers):
        header.driver_version = answers.text("nvmlSystemGetDriverVersion")
        header.nvml_version = answers.text("nvmlSystemGetNVMLVersion")
        branch = answers.of("nvmlSystemGetDriverBranch")
        header.driver_branch = str(branch["branch"] if isinstance(branch, dict) else branch or "").encode(
            "ascii", errors="replace"
        )
        put(header, "cuda_driver_version", answers.number("nvmlSystemGetCudaDriverVersion_v2"))
    return header


@contextmanager
def _forms_of_nvml(recording: Recording, subject: str, answers: RecordedAnswers) -> Iterator[None]:
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        place = recording.place(subject, answers.call)
        raise InputError(f"{place}: {subject}: {answers.call}: no answer such as NVML gives: {error}") from None


def states_of_recording(recording: Recording) -> Iterator[layout.GpuState]:
    """The state of each GPU as it was recorded; what NVML did not answer is as on a board that cannot.

    Raises:
        InputError: an answer has another form than NVML gives it.
    """
    survey = recording.survey()
    shared = _shared_levels(survey)
    for index, answers in enumerate(survey.gpus):
        recorded = RecordedAnswers(answers)
        with _forms_of_nvml(recording, f"gpus.{index}", recorded):
            state = _state(recorded)
        recorded = RecordedAnswers(survey.system)
        with _forms_of_nvml(recording, "system", recorded):
            put(state.nvlink, "bandwidth_mode", recorded.number("nvmlSystemGetNvlinkBwMode"))
        for member, values in shared.items():
            setattr(state.placement, member, values[index])
        yield state


def _state(answers: RecordedAnswers) -> layout.GpuState:
    state = layout.GpuState()
    if answers.of(PCI) is None:
        raise LookupError("it is missing")
    for member, call in TEXTS.items():
        setattr(state.identity, member, answers.text(call))
    for (topic, member), (call, pick) in NUMBERS.items():
        put(getattr(state, topic), member, answers.number(call, pick))
    _fill_lists(state, answers)
    _fill_clocks(state, answers)
    _fill_links(state, answers)
    fill_recorded_mig(state, answers)
    return state


def _fill_lists(state: layout.GpuState, answers: RecordedAnswers) -> None:
    for threshold in range(len(state.thermal.threshold_c)):
        degrees = answers.of(f"nvmlDeviceGetTemperatureThreshold {threshold}")
        put(state.thermal.threshold_c, threshold, _NO_THRESHOLD if degrees is None else degrees)
    for fan in range(state.fans.count):
        put(state.fans.percent, fan, answers.number(f"nvmlDeviceGetFanSpeed_v2 {fan}"))
        put(state.fans.target_percent, fan, answers.number(f"nvmlDeviceGetTargetFanSpeed {fan}"))
        if rpm := answers.number("nvmlDeviceGetFanSpeedRPM"):
            put(state.fans, "max_rpm", round(rpm * 100 / max(1, state.fans.percent[0])))
        put(state.fans.is_manual, fan, answers.number(f"nvmlDeviceGetFanControlPolicy_v2 {fan}"))
    for error, counters in enumerate(state.ecc.errors):
        for counter, locations in enumerate(counters):
            for location in range(len(locations)):
                put(
                    locations, location, answers.number(f"nvmlDeviceGetMemoryErrorCounter {error} {counter} {location}")
                )
    put_all(state.placement.cpu_mask, answers.items("nvmlDeviceGetCpuAffinity 16"))
    nodes = answers.items("nvmlDeviceGetMemoryAffinity 16 0")
    numbers = [word * 64 + bits.bit_length() - 1 for word, bits in enumerate(nodes) if bits]
    state.placement.numa_node = numbers[0] if numbers else -1
    if cluster := answers.of("nvmlDeviceGetGpuFabricInfo"):
        put_all(state.fabric.cluster_uuid, cluster["clusterUuid"])
    for policy in range(len(state.counters.violation_ns)):
        lasted = answers.number(f"nvmlDeviceGetViolationStatus {policy}", lambda status: status["violationTime"])
        put(state.counters.violation_ns, policy, lasted)
    for cause in range(len(state.remap.retired_pages)):
        state.remap.retired_pages[cause] = len(answers.items(f"nvmlDeviceGetRetiredPages {cause}"))
    if not state.remap.is_supported:
        put(state.remap, "is_pending", answers.number("nvmlDeviceGetRetiredPagesPendingStatus"))
    for error in range(len(state.counters.pcie_errors)):
        put(state.counters.pcie_errors, error, answers.number(f"nvmlDeviceGetFieldValues {_PCIE_ERRORS + error}"))
    if mig := answers.of("nvmlDeviceGetMigMode"):
        put(state.modes, "mig_current", mig[0])
        put(state.modes, "mig_pending", mig[1])


_CLOCKS: Final = {
    "current_mhz": "nvmlDeviceGetClockInfo",
    "maximum_mhz": "nvmlDeviceGetMaxClockInfo",
    "application_mhz": "nvmlDeviceGetApplicationsClock",
    "default_application_mhz": "nvmlDeviceGetDefaultApplicationsClock",
}


def _fill_clocks(state: layout.GpuState, answers: RecordedAnswers) -> None:
    clocks = state.clocks
    for member, call in _CLOCKS.items():
        array = getattr(clocks, member)
        for domain in range(len(array)):
            put(array, domain, answers.number(f"{call} {domain}"))
    for domain, name in enumerate(("Gpc", "Mem")):
        put(clocks.offset_mhz, domain, answers.number(f"nvmlDeviceGet{name}ClkVfOffset"))
        put(
            clocks.offset_max_mhz, domain, answers.number(f"nvmlDeviceGet{name}ClkMinMaxVfOffset", lambda ends: ends[1])
        )
    states = answers.items("nvmlDeviceGetSupportedPerformanceStates")
    put(clocks, "performance_states", sum(1 << number for number in states))
    for position, memory in enumerate(answers.items("nvmlDeviceGetSupportedMemoryClocks")):
        put(clocks.memory_mhz, position, memory)
        graphics = sorted(answers.items(f"nvmlDeviceGetSupportedGraphicsClocks {memory}")) or [0]
        put(clocks.graphics_max_mhz, position, graphics[-1])
        if position == 0:
            put(clocks, "graphics_min_mhz", graphics[0])
            put(clocks, "graphics_step_khz", _step_khz(graphics))


def _step_khz(rising: Sequence[int]) -> int:
    """The step, which NVML's whole megahertz hide: a whole number of half megahertz."""
    if len(rising) < 2:
        return 0
    return round((rising[-1] - rising[0]) / (len(rising) - 1) * 2) * 500


def _fill_links(state: layout.GpuState, answers: RecordedAnswers) -> None:
    for number, link in enumerate(state.links):
        active = answers.of(f"nvmlDeviceGetNvLinkState {number}")
        if active is None:
            break
        state.nvlink.count = number + 1
        link.is_active = bool(active)
        version = answers.number(f"nvmlDeviceGetNvLinkVersion {number}") or answers.number(_NVLINK_VERSION)
        state.nvlink.version = NVLINK_GENERATIONS.get(version, state.nvlink.version)
        put(link, "remote_type", answers.number(f"nvmlDeviceGetNvLinkRemoteDeviceType {number}"))
        if remote := answers.of(f"nvmlDeviceGetNvLinkRemotePciInfo {number}"):
            for member, key in _REMOTE.items():
                put(link, member, remote[key])
        for counter in range(len(link.errors)):
            put(link.errors, counter, answers.number(f"nvmlDeviceGetNvLinkErrorCounter {number} {counter}"))


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


_PROFILE: Final = "nvmlDeviceGetGpuInstanceProfileInfoV"
_HOPPER: Final = 9
_FIGURES: Final = {
    "id": "id",
    "slices": "sliceCount",
    "instances": "instanceCount",
    "multiprocessors": "multiprocessorCount",
    "copy_engines": "copyEngineCount",
    "decoders": "decoderCount",
    "encoders": "encoderCount",
    "jpegs": "jpegCount",
    "ofas": "ofaCount",
    "capabilities": "capabilities",
    "memory_mib": "memorySizeMB",
}


def fill_recorded_mig(state: layout.GpuState, recorded: RecordedAnswers) -> None:
    """Fill ``state.mig``; its identity and modes must be there."""
    mig = state.mig
    for kind in range(len(mig.profiles)):
        answers: dict[str, Any] = recorded.of(f"{_PROFILE} {kind}") or {}
        if "id" not in answers:
            continue
        profile = mig.profiles[kind]
        profile.is_here = True
        profile.name = str(answers.get("name", "")).removeprefix("MIG ").encode("ascii", errors="replace")
        for member, key in _FIGURES.items():
            put(profile, member, answers.get(key, 0))
        _fill_placements(profile, recorded)
        _fill_instances(mig, kind, recorded)
    here = [profile for profile in mig.profiles if profile.is_here]
    if not any(profile.size for profile in here):
        _derive_placements(here)
    mig.memory_slices = max((profile.size for profile in here), default=0)
    mig.compute_slices = max((profile.slices for profile in here), default=0)
    mig.slice_multiprocessors = mig.profiles[KINDS.index("1_SLICE")].multiprocessors
    mig.needs_reset = bool(here) and state.identity.architecture < _HOPPER


def _fill_placements(profile: layout.MigProfile, recorded: RecordedAnswers) -> None:
    places = recorded.items(f"{PLACEMENTS} {profile.id}")
    put(profile, "size", places[0]["size"] if places else 0)
    put(profile, "starts", sum(1 << place["start"] for place in places))


def _derive_placements(profiles: Sequence[layout.MigProfile]) -> None:
    """Place instances by the size of their memory, as all tables of mig_profiles.yaml do: only root is told placements.

    An instance begins at a multiple of its size; as many begin as there are instances of the same size at most.
    """
    whole = max(profiles, key=lambda profile: profile.slices, default=None)
    if whole is None:
        return
    memory_slices = 1 << (whole.slices - 1).bit_length()
    for profile in profiles:
        put(profile, "size", round(memory_slices * profile.memory_mib / whole.memory_mib))
    for profile in profiles:
        alike = [one.instances for one in profiles if (one.slices, one.size) == (profile.slices, profile.size)]
        put(profile, "starts", sum(1 << profile.size * place for place in range(max(alike))))


def _fill_instances(mig: layout.Mig, kind: int, recorded: RecordedAnswers) -> None:
    for answers in recorded.items(f"{INSTANCES} {mig.profiles[kind].id}"):
        instance = mig.gpu_instances[answers["id"]]
        instance.is_here, instance.profile = True, kind
        put(instance, "start", answers["placement"]["start"])
        for inner in answers["computeInstances"]:
            free = next((place for place in mig.compute_instances if not place.is_here), None)
            if free is None:
                raise LookupError("more compute instances than a GPU has")
            free.is_here = True
            put(free, "gpu_instance", answers["id"])
            put(free, "id", inner["id"])
            put(free, "profile", inner["profile"])
            put(free, "start", inner["placement"]["start"])
