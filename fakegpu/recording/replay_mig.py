"""From what a recording tells of MIG to the state of a GPU: profiles, placements and instances."""

from __future__ import annotations

from typing import Any, Final

from ..profiles.mig_profiles import KINDS
from ..state import layout
from .survey_mig import INSTANCES, PLACEMENTS
from .told import Told, put

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


def fill_recorded_mig(state: layout.GpuState, recorded: Told) -> None:
    """Fills ``state.mig``; its identity and modes must be there."""
    mig = state.mig
    for kind in range(len(mig.profiles)):
        told: dict[str, Any] = recorded.of(f"{_PROFILE} {kind}") or {}
        if "id" not in told:
            continue
        profile = mig.profiles[kind]
        profile.is_here = True
        profile.name = str(told.get("name", "")).removeprefix("MIG ").encode()
        for member, key in _FIGURES.items():
            put(profile, member, told.get(key, 0))
        _fill_placements(profile, recorded)
        _fill_instances(mig, kind, recorded)
    here = [profile for profile in mig.profiles if profile.is_here]
    mig.memory_slices = max((profile.size for profile in here), default=0)
    mig.compute_slices = max((profile.slices for profile in here), default=0)
    mig.slice_multiprocessors = mig.profiles[KINDS.index("1_SLICE")].multiprocessors
    mig.needs_reset = bool(here) and state.identity.architecture < _HOPPER


def _fill_placements(profile: layout.MigProfile, recorded: Told) -> None:
    places = recorded.items(f"{PLACEMENTS} {profile.id}")
    put(profile, "size", places[0]["size"] if places else 0)
    put(profile, "starts", sum(1 << place["start"] for place in places))


def _fill_instances(mig: layout.Mig, kind: int, recorded: Told) -> None:
    for told in recorded.items(f"{INSTANCES} {mig.profiles[kind].id}"):
        instance = mig.gpu_instances[told["id"]]
        instance.is_here, instance.profile = True, kind
        put(instance, "start", told["placement"]["start"])
        for inner in told["computeInstances"]:
            free = next((place for place in mig.compute_instances if not place.is_here), None)
            if free is None:
                raise LookupError("more compute instances than a GPU has")
            free.is_here = True
            put(free, "gpu_instance", told["id"])
            put(free, "id", inner["id"])
            put(free, "profile", inner["profile"])
            put(free, "start", inner["placement"]["start"])
