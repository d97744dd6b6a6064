"""What a new machine starts from: profiles with a number of GPUs each, or a recording of a machine that was."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from ..errors import InputError
from ..profiles.document import DUMPER, is_file_name, read_document
from ..profiles.profile import Profile, load_profile
from ..state import layout
from .hardware import header_of, states_of_mix

if TYPE_CHECKING:
    from ..recording.recording import Recording

_DEFAULT_COUNT: Final = 8
_RECORDING: Final = re.compile(r"^recording:", re.MULTILINE)

Model = str | Profile
"""A profile, or the name or file of one."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The first content of a machine.

    Attributes:
        header: of its segment.
        states: of its GPUs, by index.
        text: YAML of what it was made from: one document for each model, or the recording.
        samples: CSV of figures over time, where a recording has them.
    """

    header: layout.Header
    states: Sequence[layout.GpuState]
    text: str
    samples: str | None = None


def inventory_of(
    profile: Model | Recording, count: int | None, gpus: Iterable[tuple[Model, int]] | None, seed: str | None
) -> Inventory:
    """Arguments as ``Machine.create``.

    Raises:
        InputError: no such profile or recording, or a number of GPUs that cannot be.
    """
    if gpus is not None:
        groups = [(_profile_of(model), number) for model, number in gpus]
    else:
        model = _description_of(profile) if isinstance(profile, str) else profile
        if not isinstance(model, Profile):
            return _replayed(model, count)
        groups = [(model, _DEFAULT_COUNT if count is None else count)]
    total = sum(number for _, number in groups)
    if not 1 <= total <= layout.GPUS_MAX or any(number < 1 for _, number in groups):
        raise InputError(f"cannot make {total} GPUs: a machine has 1 to {layout.GPUS_MAX}, at least one of each model")
    seed = uuid.uuid4().hex if seed is None else seed.encode(errors="replace").decode()
    states = list(states_of_mix(groups, seed))
    documents = dict.fromkeys(_yaml_of(model) for model, _ in groups)
    return Inventory(header_of(groups[0][0]), states, "---\n".join(documents))


def names_recording(name: str) -> bool:
    """Whether ``name`` is the file of a recording.

    Raises:
        InputError: it is a file that cannot be read.
    """
    return is_file_name(name) and _RECORDING.search(read_document(name)) is not None


def _replayed(recording: Recording, count: int | None) -> Inventory:
    from ..recording.replay import header_of_recording, states_of_recording

    if len(recording.gpus) > layout.GPUS_MAX:
        raise InputError(f"the recording has {len(recording.gpus)} GPUs: a machine has 1 to {layout.GPUS_MAX}")
    states = list(states_of_recording(recording))
    if count is not None and count != len(states):
        raise InputError(f"cannot make {count} GPUs: the recording has {len(states)}; leave the number away")
    samples = recording.samples.to_csv() if recording.samples else None
    return Inventory(header_of_recording(recording), states, recording.to_yaml(), samples)


def _description_of(name: str) -> Profile | Recording:
    if not names_recording(name):
        return load_profile(name)
    from ..recording.recording import parse_recording

    return parse_recording(read_document(name), name)


def _profile_of(model: Model) -> Profile:
    if isinstance(model, Profile):
        return model
    found = _description_of(model)
    if not isinstance(found, Profile):
        raise InputError(f"{model} is the recording of a whole machine: `fakegpu up --profile {model}` gives it back")
    return found


def _yaml_of(profile: Profile) -> str:
    content = profile.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return str(yaml.dump(content, Dumper=DUMPER, sort_keys=False, allow_unicode=True))
