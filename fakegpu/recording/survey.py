"""Everything that NVML answers on this machine, call by call. ``python -m fakegpu.recording.survey`` prints it as JSON.

A call is written as its name and arguments, ``nvmlDeviceGetClockInfo 0``; an answer is plain data, or ``{"error":
NAME}`` with the name of the return code, without ``NVML_ERROR_``. Handles of GPUs appear as their NVML indices. It goes
through nvidia-ml-py alone, so that the library may be a fake one or NVIDIA's.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import pynvml

from .survey_calls import ARGUMENTS, LEFT_OUT, LINK_CALLS, PAIR_CALLS, SCOPED_FIELDS, STRUCTS, SYSTEM_CALLS, mig_calls

Answers = dict[str, Any]
"""Answers by call."""

_LINKS: Final = range(18)
_FIELDS: Final = range(1, 300)
_HIDDEN_MEMBERS: Final = ("version", "reserved", "rsvd", "padding", "referenceTime", "timeRun")


@dataclass(frozen=True, slots=True)
class Survey:
    """What one machine answered.

    Attributes:
        system: calls without a GPU.
        gpus: calls about one GPU, by index.
        pairs: calls about two GPUs, by their indices, in rising order.
    """

    system: Answers
    gpus: Sequence[Answers]
    pairs: dict[tuple[int, int], Answers]

    def to_json(self) -> str:
        """The survey as one JSON object."""
        pairs = [[one, other, answers] for (one, other), answers in self.pairs.items()]
        return json.dumps({"system": self.system, "gpus": self.gpus, "pairs": pairs})

    @classmethod
    def from_json(cls, text: str) -> Survey:
        """The reverse of ``to_json``."""
        content = json.loads(text)
        pairs = {(one, other): answers for one, other, answers in content["pairs"]}
        return cls(content["system"], content["gpus"], pairs)


def survey() -> Survey:
    """Ask the NVML that this process finds.

    Raises:
        pynvml.NVMLError: it cannot be initialised.
    """
    pynvml.nvmlInit()
    try:
        count = pynvml.nvmlDeviceGetCount()
        handles = [_handle(index) for index in range(count)]
        gpus = [{} if handle is None else dict(_of_gpu(handle)) for handle in handles]
        pairs = {
            (one, other): dict(_of_pair(handles[one], handles[other]))
            for one in range(count)
            for other in range(one + 1, count)
            if handles[one] is not None and handles[other] is not None
        }
        return Survey(dict(_asked((name, ()) for name in SYSTEM_CALLS)), gpus, pairs)
    finally:
        pynvml.nvmlShutdown()


def _handle(index: int) -> Any:
    try:
        return pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError:
        return None


def _of_gpu(gpu: Any) -> Iterator[tuple[str, Any]]:
    plain = [(name, ()) for name in _plain_calls()]
    listed = [(name, arguments) for name, domains in ARGUMENTS.items() for arguments in product(*domains)]
    links = [(name, (link, *rest)) for name, domains in LINK_CALLS.items() for link, *rest in product(_LINKS, *domains)]
    yield from _asked([*plain, *listed, *links], gpu)
    for name, (struct, version) in STRUCTS.items():
        if hasattr(pynvml, name) and hasattr(pynvml, struct):
            yield name, _answer(_filled(name, struct, version), gpu)
    for clock in _list_of(gpu, "nvmlDeviceGetSupportedMemoryClocks"):
        yield from _asked([("nvmlDeviceGetSupportedGraphicsClocks", (clock,))], gpu)
    for name, call in mig_calls(gpu):
        yield name, _answer(call)
    for field in _FIELDS:
        yield f"nvmlDeviceGetFieldValues {field}", _answer(_field, gpu, field)
    for field, scope in SCOPED_FIELDS:
        yield f"nvmlDeviceGetFieldValues {field} {scope}", _answer(_field, gpu, (field, scope))


def _of_pair(one: Any, other: Any) -> Iterator[tuple[str, Any]]:
    for name, domains in PAIR_CALLS.items():
        for arguments in product(*domains):
            yield _written(name, arguments), _answer(getattr(pynvml, name), one, other, *arguments)


def _plain_calls() -> Iterator[str]:
    """Getters of nvidia-ml-py that need nothing but the GPU."""
    for name, function in sorted(vars(pynvml).items()):
        if not name.startswith(("nvmlDeviceGet", "nvmlDeviceIs")) or not inspect.isfunction(function):
            continue
        parameters = list(inspect.signature(function).parameters.values())
        needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
        if len(needed) == 1 and needed[0].name in {"handle", "device"} and name not in LEFT_OUT:
            yield name


def _asked(calls: Iterable[tuple[str, tuple[Any, ...]]], *subject: Any) -> Iterator[tuple[str, Any]]:
    for name, arguments in calls:
        if function := getattr(pynvml, name, None):
            yield _written(name, arguments), _answer(function, *subject, *arguments)


def _written(name: str, arguments: Iterable[Any]) -> str:
    return " ".join([name, *map(str, arguments)])


def _answer(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return _plain(function(*arguments))
    except pynvml.NVMLError as error:
        return {"error": _error_name(error.value)}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A wrapper of nvidia-ml-py that does not get along with this driver; the other calls are worth having.
        return {"error": type(error).__name__}


def _error_name(code: int) -> str:
    prefix = "NVML_ERROR_"
    names = (name for name, value in vars(pynvml).items() if name.startswith(prefix) and value == code)
    return next(names, f"{prefix}{code}").removeprefix(prefix)


def _filled(name: str, struct: str, version: str | None) -> Callable[[Any], Any]:
    """A call that gets a struct of its own to fill; wrappers differ in whether they return it."""

    def call(gpu: Any) -> Any:
        made = getattr(pynvml, struct)()
        if version is not None:
            made.version = getattr(pynvml, version)
        try:
            result = getattr(pynvml, name)(gpu, ctypes.byref(made))
        except (TypeError, AttributeError, ctypes.ArgumentError):
            result = getattr(pynvml, name)(gpu, made)
        return made if result in (None, 0) else result

    return call


def _field(gpu: Any, field: int | tuple[int, int]) -> Any:
    (value,) = pynvml.nvmlDeviceGetFieldValues(gpu, [field])
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(value.nvmlReturn)
    member = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
    return getattr(value.value, member[value.valueType])


def _list_of(gpu: Any, name: str) -> Sequence[int]:
    found = _answer(getattr(pynvml, name), gpu)
    return found if isinstance(found, list) else ()


def _plain(value: Any) -> Any:
    """Data of JSON for what a wrapper returned."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | ctypes.Array):
        return [_plain(item) for item in value]
    if isinstance(value, pynvml.c_nvmlDevice_t | ctypes._Pointer):
        return pynvml.nvmlDeviceGetIndex(value)
    if isinstance(value, ctypes._SimpleCData):
        return _plain(value.value)
    if isinstance(value, ctypes.Structure | ctypes.Union):
        members = (field[0] for kind in type(value).__mro__ for field in vars(kind).get("_fields_", ()))
        return {name: _plain(getattr(value, name)) for name in members if not name.startswith(_HIDDEN_MEMBERS)}
    return {name: _plain(item) for name, item in vars(value).items() if not name.startswith(("_", *_HIDDEN_MEMBERS))}


def main() -> int:
    """Print the survey as JSON, or the error of ``nvmlInit`` on standard error with exit status 3."""
    try:
        print(survey().to_json())
    except pynvml.NVMLError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
