"""Breaking and fixing a machine: everything except the plain XID and loss of ``Machine.fail``.

::

    faults = machine.faults
    faults.xid(3, 79, when=When.of(after="30s"))
    faults.ecc(3, corrected=1, when=When.of(every="100ms"))     # a storm, until the plan is removed
    faults.slow("nvmlDeviceGet*", "p50=1ms,p99=20ms")
    faults.fail_calls("nvmlDeviceGetMemoryInfo", "UNKNOWN", hits=Hits(chance=0.1, seed=7))
    faults.fail_init("DRIVER_NOT_LOADED", times=3)
    faults.clear()                                              # all rules and plans; Machine.heal heals the GPUs
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import InputError
from ..state import layout
from ..state.event_type import EventType
from ..state.layout import ActionKind
from ..state.segment import Segment
from .schedule import NOW, Plan, When, act, parse_duration_us, read_plans

if TYPE_CHECKING:
    from .rules import Hits, Rule

ANY_INSTANCE: Final = (layout.NO_INSTANCE, layout.NO_INSTANCE)
XID_ROW_REMAPPED: Final = 63
"""What `Faults.retire` reports."""
_XID_MAX: Final = (1 << 32) - 1
_COUNT_MAX: Final = (1 << 31) - 1


class Faults:
    """The faults of one machine; made by ``Machine.faults``. GPUs are given by index.

    A fault of a GPU returns the number of its plan, or None when it was done at once. Every method raises InputError
    for numbers that cannot be and when there is no room for another plan or rule.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def xid(self, gpu: int, xid: int, *, instance: tuple[int, int] = ANY_INSTANCE, when: When = NOW) -> int | None:
        """Report an XID error, of the GPU or of one instance of it (ids of GPU and compute instance)."""
        _check_xid(xid)
        self._check_instance(gpu, instance)
        return act(self._segment, gpu, ActionKind.XID, xid, instance, when)

    def lose(self, gpu: int, *, xid: int | None = None, when: When = NOW) -> int | None:
        """Take the GPU off the bus; with an XID that reports it, waits end with that event."""
        if xid is not None:
            _check_xid(xid)
        return act(self._segment, gpu, ActionKind.LOSE, xid or 0, when=when)

    def ecc(self, gpu: int, *, corrected: int = 0, uncorrected: int = 0, when: When = NOW) -> int | None:
        """Count errors of the memory of one kind, volatile and aggregate, and send its event."""
        count = corrected or uncorrected
        if not 0 < count <= _COUNT_MAX or (corrected and uncorrected):
            raise InputError("memory errors: give a number of corrected or of uncorrected ones")
        kind = ActionKind.CORRECTED_ECC if corrected else ActionKind.UNCORRECTED_ECC
        return act(self._segment, gpu, kind, count, when=when)

    def retire(self, gpu: int, count: int = 1, *, when: When = NOW) -> int | None:
        """Remap rows, or retire pages where the board does that, pending until healed; XID 63 reports it."""
        if not 0 < count <= 1024:
            raise InputError(f"retire {count}: a number from 1 to 1024")
        return act(self._segment, gpu, ActionKind.RETIRE, count, when=when)

    def throttle(self, gpu: int, *, when: When = NOW) -> int | None:
        """Make the GPU hotter than its slowdown threshold: lowest clocks, thermal slowdown as the reason."""
        return act(self._segment, gpu, ActionKind.THROTTLE, when=when)

    def cool(self, gpu: int, *, when: When = NOW) -> int | None:
        """End ``throttle``: figures are as before."""
        return act(self._segment, gpu, ActionKind.COOL, when=when)

    def links_down(self, gpu: int, links: tuple[int, ...] = (), *, when: When = NOW) -> int | None:
        """Take NVLinks of the GPU down, all if none is named."""
        return act(self._segment, gpu, ActionKind.LINKS_DOWN, self._link_mask(gpu, links), when=when)

    def links_up(self, gpu: int, links: tuple[int, ...] = (), *, when: When = NOW) -> int | None:
        """End ``links_down``."""
        return act(self._segment, gpu, ActionKind.LINKS_UP, self._link_mask(gpu, links), when=when)

    def event(self, gpu: int, event: EventType, *, when: When = NOW) -> int | None:
        """Send an event without any other change."""
        return act(self._segment, gpu, ActionKind.EVENT, event.nvml_bit, when=when)

    def heal(self, gpu: int, *, when: When = NOW) -> int | None:
        """Heal everything above that lasts: see ``Machine.heal``."""
        return act(self._segment, gpu, ActionKind.HEAL, when=when)

    def slow(
        self,
        function: str,
        latency: str,
        *,
        gpu: int | None = None,
        hits: Hits | None = None,
        when: When = NOW,
        lasting: str | None = None,
    ) -> int:
        """Make calls slow; return the number of the rule.

        Args:
            function: an NVML function, all versions if it names none; ``nvmlDeviceGet*`` means all that begin so.
            latency: as ``rules.parse_latency`` reads.
            gpu: only calls for this GPU.
            hits: which calls; each if None.
            when: from when on.
            lasting: how long the rule holds, as in ``30s``; None: until it is removed.
        """
        from .rules import parse_latency

        return self._add(function, 0, parse_latency(latency), gpu, hits, when, lasting)

    def fail_calls(
        self,
        function: str,
        error: str | int,
        *,
        gpu: int | None = None,
        hits: Hits | None = None,
        when: When = NOW,
        lasting: str | None = None,
    ) -> int:
        """Let calls answer with an error (``GPU_IS_LOST``, or its number); the rest as ``slow``."""
        from .rules import error_code

        return self._add(function, error_code(error), (), gpu, hits, when, lasting)

    def fail_init(self, error: str | int, *, times: int | None = None, when: When = NOW) -> int:
        """Let nvmlInit fail, for processes that have not initialised: every time, or so many times in all."""
        from .rules import Hits, error_code

        return self._add("nvmlInit", error_code(error), (), None, Hits(times=times), when, None)

    def stick_waits(self, is_stuck: bool = True) -> None:
        """Let waits for events hang whatever their timeout, or let them go on; no event is lost by it."""
        self._segment.command("fakegpu_stick_waits", int(is_stuck))

    @property
    def are_waits_stuck(self) -> bool:
        """Whether waits for events hang."""
        return bool(self._segment.flags() & layout.FAULT_WAIT)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force or to come."""
        from .rules import read_rules

        return read_rules(self._segment)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """What will happen, the next first."""
        return read_plans(self._segment)

    def remove(self, number: int) -> None:
        """Take a rule or a plan back.

        Raises:
            InputError: there is none of this number.
        """
        commands = ("fakegpu_remove_rule", "fakegpu_remove_plan")
        if all(self._segment.command(command, number) != 0 for command in commands):
            numbers = [str(rule.number) for rule in self.rules] + [str(plan.number) for plan in self.plans]
            raise InputError(f"no rule or plan {number}: there are {', '.join(numbers) or 'none'}")

    def clear(self) -> None:
        """Take all rules and plans back, and let stuck waits go on; what has happened to the GPUs stays."""
        for rule in self.rules:
            self._segment.command("fakegpu_remove_rule", rule.number)
        for plan in self.plans:
            self._segment.command("fakegpu_remove_plan", plan.number)
        self.stick_waits(False)

    def _add(
        self,
        function: str,
        error: int,
        delays: tuple[tuple[float, int], ...],
        gpu: int | None,
        hits: Hits | None,
        when: When,
        lasting: str | None,
    ) -> int:
        from .rules import EACH, add_rule

        if when.every_us is not None:
            raise InputError("a rule holds from some time on: say which calls it applies to, not how often it comes")
        for_us = None if lasting is None else parse_duration_us(lasting)
        return add_rule(
            self._segment, function, error=error, delays=delays, gpu=gpu, hits=hits or EACH, when=when, for_us=for_us
        )

    def _link_mask(self, gpu: int, links: tuple[int, ...]) -> int:
        count = self._segment.read(gpu).nvlink.count
        if not count:
            raise InputError(f"GPU {gpu} has no NVLink")
        if wrong := [link for link in links if not 0 <= link < count]:
            raise InputError(f"GPU {gpu} has no NVLink {wrong[0]}: it has {count}, 0 to {count - 1}")
        return sum(1 << link for link in set(links)) or (1 << count) - 1

    def _check_instance(self, gpu: int, instance: tuple[int, int]) -> None:
        if instance == ANY_INSTANCE:
            return
        mig = self._segment.read(gpu).mig
        if not (instance[0] < layout.GPU_INSTANCES and mig.gpu_instances[instance[0]].is_here):
            raise InputError(f"GPU {gpu} has no GPU instance {instance[0]}: `fakegpu mig list` shows them")
        parts = {part.id for part in mig.compute_instances if part.is_here and part.gpu_instance == instance[0]}
        if instance[1] != layout.NO_INSTANCE and instance[1] not in parts:
            raise InputError(f"GPU {gpu}, GPU instance {instance[0]}: no compute instance {instance[1]}")


def _check_xid(xid: int) -> None:
    if not 0 < xid <= _XID_MAX:
        raise InputError(f"no XID {xid}: an XID is a number from 1 to {_XID_MAX}")
