"""Recordings: what NVML answers on a machine, call by call, as a YAML file that makes a fake machine again.

::

    recording: {format: 1, at: …, anonymised: false}
    system: {calls: {nvmlSystemGetDriverVersion: 580.95.05, …}, refused: {NOT_SUPPORTED: [nvmlSystemGetHicVersion, …]}}
    shared: {calls: {…}, refused: {…}}       what all GPUs answer alike
    gpus: [{calls: {…}, refused: {…}}, …]    what only this one answers so, by NVML index
    pairs: [{gpus: [0, 1], calls: {…}, refused: {…}}, …]
    samples: {intervalS: 1.0, gpus: [{temperature.gpu: [32, 33, …], power.draw: [72.1, …], …}, …]}

The keys of ``samples`` are the columns of ``nvidia-smi --query-gpu``, whose units its figures have.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self

import yaml
from pydantic import Field, PrivateAttr, model_validator

from ..profiles.document import DUMPER, Part, line_of, parse_as
from .survey import Answers, Survey

_NAMES: Final = uuid.UUID("3d1b1c52-6f0e-4b57-9f5e-0a7b8c1f2d43")
_PROCESSES: Final = re.compile(
    r"^nvmlDeviceGet(Compute|Graphics|MPSCompute)RunningProcesses|^nvmlDeviceGetAccountingPids"
)
_ZEROED: Final = frozenset(
    {"nvmlDeviceGetPdi", "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetHostname_v1", "nvmlDeviceGetPgpuMetadataString"}
)


class Said(Part):
    """Answers of one subject: values by call, and calls by the name of the return code."""

    calls: Mapping[str, Any] = Field(default_factory=dict)
    refused: Mapping[str, Sequence[str]] = Field(default_factory=dict)

    @classmethod
    def of(cls, answers: Answers) -> Said:
        """From the answers of a survey."""
        refused: dict[str, list[str]] = {}
        for call, answer in answers.items():
            if _is_refusal(answer):
                refused.setdefault(answer["error"], []).append(call)
        return cls(calls={call: answer for call, answer in answers.items() if not _is_refusal(answer)}, refused=refused)

    def answers(self) -> Answers:
        """As answers of a survey."""
        refused = {call: {"error": name} for name, calls in self.refused.items() for call in calls}
        return dict(self.calls) | refused


class PairSaid(Said):
    """Answers about two GPUs."""

    gpus: Sequence[int] = Field(min_length=2, max_length=2)


class Samples(Part):
    """Figures over time, by GPU and column of ``nvidia-smi --query-gpu``."""

    interval_s: float = Field(gt=0, le=86_400, strict=False)
    gpus: Sequence[Mapping[str, Sequence[float]]]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({len(values) for gpu in self.gpus for values in gpu.values()}) > 1:
            raise ValueError("every column needs as many figures as the others")
        return self

    def to_csv(self) -> str:
        """The figures of all GPUs as nvidia-smi writes them, with seconds for timestamps."""
        columns = sorted({column for gpu in self.gpus for column in gpu})
        lines = [", ".join(["timestamp", "index", *columns])]
        for number in range(max((len(values) for gpu in self.gpus for values in gpu.values()), default=0)):
            for index, gpu in enumerate(self.gpus):
                cells = (f"{gpu[column][number]:g}" if column in gpu else "[N/A]" for column in columns)
                lines.append(", ".join([f"{number * self.interval_s:.3f}", str(index), *cells]))
        return "\n".join(lines) + "\n"


class About(Part):
    """How the recording came to be."""

    format: Literal[1]
    at: str = Field(description="date and time in UTC")
    anonymised: bool = Field(description="whether UUIDs, serial numbers and names of processes are made up")


class Recording(Part):
    """One recorded machine."""

    recording: About
    system: Said
    shared: Said
    gpus: Sequence[Said] = Field(min_length=1)
    pairs: Sequence[PairSaid] = ()
    samples: Samples | None = None
    _file: tuple[str, str] | None = PrivateAttr(None)
    """Name and text of the file that it was read from."""

    @classmethod
    def of(cls, survey: Survey, samples: Samples | None = None, *, anonymise: bool = False) -> Recording:
        """A recording of what was surveyed.

        Args:
            survey: answers of the machine, which must have GPUs.
            samples: figures over time.
            anonymise: put made-up values in the place of UUIDs, serial numbers, host names and processes.
        """
        gpus = [_anonymous(answers, index) for index, answers in enumerate(survey.gpus)] if anonymise else survey.gpus
        alike = {call: answer for call, answer in gpus[0].items() if all(other.get(call) == answer for other in gpus)}
        own = [{call: answer for call, answer in answers.items() if call not in alike} for answers in gpus]
        return cls(
            recording=About(format=1, at=datetime.now(UTC).isoformat(timespec="seconds"), anonymised=anonymise),
            system=Said.of(survey.system),
            shared=Said.of(alike),
            gpus=[Said.of(answers) for answers in own],
            pairs=[
                PairSaid(gpus=list(pair), **Said.of(answers).model_dump()) for pair, answers in survey.pairs.items()
            ],
            samples=samples,
        )

    def survey(self) -> Survey:
        """The answers that were recorded."""
        shared = self.shared.answers()
        pairs = {(pair.gpus[0], pair.gpus[1]): pair.answers() for pair in self.pairs}
        return Survey(self.system.answers(), [shared | gpu.answers() for gpu in self.gpus], pairs)

    def place(self, subject: str, call: str) -> str:
        """Where an answer about ``system`` or ``gpus.<index>`` stands: file and line, where there is a file."""
        if self._file is None:
            return "recording"
        where, text = self._file
        part, _, index = subject.partition(".")
        own = [part, *([int(index)] if index else []), "calls"]
        is_own = part == "system" or call in self.gpus[int(index)].calls
        return f"{where}:{line_of(text, [*(own if is_own else ['shared', 'calls']), call])}"

    def to_yaml(self) -> str:
        """The file."""
        content = self.model_dump(mode="json", by_alias=True, exclude=None if self.samples else {"samples"})
        layout = {"width": 120, "default_flow_style": None}
        return str(yaml.dump(content, Dumper=DUMPER, sort_keys=False, allow_unicode=True, **layout))  # type: ignore[arg-type]


def parse_recording(text: str, where: str) -> Recording:
    """Read YAML as a recording.

    Args:
        text: the YAML.
        where: name of the file, for the message.

    Raises:
        InputError: it is not one; names the first wrong place by file and line.
    """
    recording = parse_as(Recording, text, where)
    recording._file = where, text
    return recording


def _is_refusal(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.keys() == {"error"}


def _anonymous(answers: Answers, index: int) -> Answers:
    """The same answers with made-up identities; refusals stay."""
    made_up = uuid.uuid5(_NAMES, str(index))
    changed: Answers = {}
    for call, answer in answers.items():
        if _is_refusal(answer):
            changed[call] = answer
        elif call == "nvmlDeviceGetUUID":
            changed[call] = f"GPU-{made_up}"
        elif call == "nvmlDeviceGetSerial":
            changed[call] = f"{made_up.int % 10**13:013d}"
        elif _PROCESSES.match(call):
            changed[call] = []
        elif call.startswith("nvmlDeviceGetGpuFabricInfo") and any(answer.get("clusterUuid", ())):
            changed[call] = answer | {"clusterUuid": list(_NAMES.bytes)}
        elif call in _ZEROED:
            changed[call] = _zeroed(answer)
        else:
            changed[call] = answer
    return changed


def _zeroed(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {key: _zeroed(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [_zeroed(value) for value in answer]
    return "" if isinstance(answer, str) else 0
