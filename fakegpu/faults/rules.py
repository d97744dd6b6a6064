"""Calls that are slow, fail, or both, by the name of their function.

A process counts the calls that match a rule; what happens to the n-th of them follows from the seed and n alone, so a
program meets the same faults every time it runs, whatever others do.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

from ..errors import InputError
from ..state import layout
from ..state.library import load_writer
from ..state.segment import Segment
from .schedule import When, now_us, parse_duration_us

_WHOLE: Final = 1 << 32
_PERCENTILE: Final = re.compile(r"p([0-9]+(?:\.[0-9]+)?)=(.+)")
_INIT: Final = "nvmlInit"
_ERROR: Final = "NVML_ERROR_"


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to calls.

    Attributes:
        number: to remove it by.
        function: name, or its beginning and a star.
        gpu: index of the GPU, None for any.
        error: nvmlReturn_t to answer, 0 for none.
        every: every n-th call; None: by chance.
        chance: of a call, 0 to 1.
        delays: shares of the calls, 0 to 1, with the microseconds that so many take at most.
        in_s: seconds until it holds.
        for_s: seconds until it ends; None: never.
        left: calls that it still applies to; None: any number.
    """

    number: int
    function: str
    gpu: int | None
    error: int
    every: int | None
    chance: float
    delays: tuple[tuple[float, int], ...]
    in_s: float
    for_s: float | None
    left: int | None


@dataclass(frozen=True, slots=True)
class Hits:
    """Which calls a rule applies to: every n-th of a process, or by chance, and how many at most, in all processes.

    Raises:
        InputError: a number that cannot be; raised by ``__post_init__``.
    """

    every: int = 1
    chance: float | None = None
    seed: int = 0
    times: int | None = None

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(f"every {self.every}: 1 is each call, 2 each other")
        if self.chance is not None and not 0 < self.chance <= 1:
            raise InputError(f"chance {self.chance}: a number above 0, up to 1")
        if self.chance is not None and self.every != 1:
            raise InputError("every n-th call, or by chance: give one of the two")
        if self.times is not None and self.times < 1:
            raise InputError(f"times {self.times}: at least 1")


EACH: Final = Hits()


def parse_latency(text: str) -> tuple[tuple[float, int], ...]:
    """Shares of the calls with the microseconds that so many take at most.

    Args:
        text: ``5ms`` (always), ``1ms..10ms`` (anything between) or ``p50=1ms,p99=20ms`` (percentiles, straight between
            two of them).

    Raises:
        InputError: none of these, or percentiles that do not rise.
    """
    if ".." in text:
        low, _, high = text.partition("..")
        points = [(0.0, parse_duration_us(low)), (1.0, parse_duration_us(high))]
    elif "=" in text:
        points = [_parse_percentile(part) for part in text.split(",")]
    else:
        points = [(1.0, parse_duration_us(text))]
    if len(points) > layout.DELAY_POINTS:
        raise InputError(f"'{text}': at most {layout.DELAY_POINTS} percentiles")
    if any(one[0] >= other[0] or one[1] > other[1] for one, other in pairwise(points)):
        raise InputError(f"'{text}' does not rise: write p50=1ms,p99=20ms")
    if points[-1][1] >= _WHOLE:
        raise InputError(f"'{text}': an hour is the longest")
    return tuple(points)


def _parse_percentile(text: str) -> tuple[float, int]:
    found = _PERCENTILE.fullmatch(text.strip())
    if not found or float(found.group(1)) > 100:
        raise InputError(f"'{text}' is no percentile: write p99=20ms")
    return float(found.group(1)) / 100, parse_duration_us(found.group(2))


def error_code(name: str | int) -> int:
    """The ``nvmlReturn_t`` of a name such as ``GPU_IS_LOST``, with or without ``NVML_ERROR_``.

    Raises:
        InputError: no such error.
    """
    known = known_errors()
    wanted = str(name).upper().removeprefix(_ERROR)
    code = known.get(wanted, next((code for code in known.values() if str(code) == wanted), None))
    if code is None:
        raise InputError(f"no NVML error '{name}': there are {', '.join(sorted(known))}")
    return code


def error_name(code: int) -> str:
    """The name that `error_code` reads; the number itself where it has none."""
    return next((name for name, known in known_errors().items() if known == code), str(code))


def known_errors() -> dict[str, int]:
    """Name of an error, without its beginning -> its number."""
    import pynvml

    return {key.removeprefix(_ERROR): int(code) for key, code in vars(pynvml).items() if key.startswith(_ERROR)}


@cache
def known_functions() -> frozenset[str]:
    """The names that a rule may have, without a star."""
    library = load_writer()
    library.fakegpu_implemented.restype = ctypes.c_char_p
    return frozenset(library.fakegpu_implemented().decode().split()) | {_INIT}


def _check_function(name: str) -> str:
    beginning = name.removesuffix("*")
    versions = (re.sub(r"_v[0-9]+$", "", function) for function in known_functions())
    is_known = (
        any(function.startswith(beginning) for function in known_functions())
        if name.endswith("*")
        else name in known_functions() or name in versions
    )
    if not is_known:
        raise InputError(f"no NVML function '{name}' that the library models; nvmlDeviceGet* means all that begin so")
    # Inside the library, all its forms are one.
    return _INIT if re.fullmatch(rf"{_INIT}(_v2|WithFlags)?", name) else name


def add_rule(
    segment: Segment,
    function: str,
    *,
    error: int = 0,
    delays: tuple[tuple[float, int], ...] = (),
    gpu: int | None = None,
    hits: Hits = EACH,
    when: When,
    for_us: int | None = None,
) -> int:
    """Add a rule and return its number.

    Raises:
        InputError: no such function, or as many rules as the machine can have.
    """
    start = now_us() + when.after_us if when.after_us else 0
    rule = layout.Rule(
        from_us=start,
        until_us=layout.FOR_EVER if for_us is None else (start or now_us()) + for_us,
        seed=hits.seed,
        left=layout.FOR_EVER if hits.times is None else hits.times,
        function=_check_function(function).encode(),
        gpu=layout.NO_GPU if gpu is None else gpu,
        error=error,
        every=0 if hits.chance is not None else hits.every,
        chance=0 if hits.chance is None else round(hits.chance * (_WHOLE - 1)),
        delay_count=len(delays),
    )
    for point, (share, microseconds) in enumerate(delays):
        rule.delay_share[point], rule.delay_us[point] = round(share * (_WHOLE - 1)), microseconds
    number = segment.command("fakegpu_add_rule", ctypes.byref(rule))
    if number == 0:
        raise InputError(f"the machine has {layout.RULES_MAX} rules, and no room for more: remove one first")
    return number


def read_rules(segment: Segment) -> tuple[Rule, ...]:
    """The rules, in the order in which they were made."""
    now = now_us()
    return tuple(
        Rule(
            number=rule.number,
            function=rule.function.decode(),
            gpu=None if rule.gpu == layout.NO_GPU else rule.gpu,
            error=rule.error,
            every=rule.every or None,
            chance=rule.chance / (_WHOLE - 1) if not rule.every else 1.0,
            delays=tuple(
                (rule.delay_share[point] / (_WHOLE - 1), rule.delay_us[point]) for point in range(rule.delay_count)
            ),
            in_s=max(0.0, (rule.from_us - now) / 1e6),
            for_s=None if rule.until_us == layout.FOR_EVER else max(0.0, (rule.until_us - now) / 1e6),
            left=None if rule.left == layout.FOR_EVER else rule.left,
        )
        for rule in sorted(segment.faults().rules, key=lambda rule: int(rule.number))
        if rule.number
    )
