"""From what a recording tells of MIG to the state of a GPU: profiles, placements and instances."""

from __future__ import annotations

from typing import Any, Final

from . import _layout
from .mig_profiles import KINDS
from .survey import Answers
from .survey_mig import INSTANCES, PLACEMENTS

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


def fill_recorded_mig(state: _layout.GpuState, answers: Answers) -> None:
    """Fills ``state.mig``; its identity and modes must be there."""
    mig = state.mig
    for kind in range(len(mig.profiles)):
        told: dict[str, Any] = answers.get(f"{_PROFILE} {kind}", {})
        if "id" not in told:
            continue
        profile = mig.profiles[kind]
        profile.is_here = True
        profile.name = str(told.get("name", "")).removeprefix("MIG ").encode()
        for member, key in _FIGURES.items():
            setattr(profile, member, told.get(key, 0))
        _fill_placements(profile, answers)
        _fill_instances(mig, kind, answers)
    here = [profile for profile in mig.profiles if profile.is_here]
    mig.memory_slices = max((profile.size for profile in here), default=0)
    mig.compute_slices = max((profile.slices for profile in here), default=0)
    mig.slice_multiprocessors = mig.profiles[KINDS.index("1_SLICE")].multiprocessors
    mig.needs_reset = bool(here) and state.identity.architecture < _HOPPER


def _fill_placements(profile: _layout.MigProfile, answers: Answers) -> None:
    places = _list(answers, f"{PLACEMENTS} {profile.id}")
    profile.size = places[0]["size"] if places else 0
    profile.starts = sum(1 << place["start"] for place in places)


def _fill_instances(mig: _layout.Mig, kind: int, answers: Answers) -> None:
    for told in _list(answers, f"{INSTANCES} {mig.profiles[kind].id}"):
        instance = mig.gpu_instances[told["id"]]
        instance.is_here, instance.profile, instance.start = True, kind, told["placement"]["start"]
        for inner in told["computeInstances"]:
            free = next(place for place in mig.compute_instances if not place.is_here)
            free.is_here, free.gpu_instance, free.id = True, told["id"], inner["id"]
            free.profile, free.start = inner["profile"], inner["placement"]["start"]


def _list(answers: Answers, call: str) -> list[Any]:
    found = answers.get(call)
    return found if isinstance(found, list) else []
