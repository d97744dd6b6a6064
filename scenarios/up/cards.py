"""What a live page shows of each node at this moment, and what it calls devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simkubelet.host import visible

from ..report.history import Lasting, Row
from ..report.messages import LaneKind

_MOST_CARDS: Final = 24
_WORDS: Final = {"healthy": "healthy", "unhealthy": "unhealthy", "held": "in use"}
_STATES: Final = {"up": "runs", "paused": "is paused"}


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page knows of a cluster besides what happens.

    Attributes:
        nodes: Their names.
        plugins: The names of those that run on each of them.
        device_name: Node and id of a device -> what people call it.
    """

    nodes: Sequence[str] = ()
    plugins: Sequence[str] = ()
    device_name: Callable[[str, str], str] = lambda node, device: device

    def cards(self, lasting: Iterable[Lasting]) -> list[dict[str, Any]]:
        """The state of each node, in lines; of many nodes some are left out, those that are not well at last.

        Args:
            lasting: What lasts on the nodes; what has ended is no part of their state.
        """
        now: dict[str, list[Lasting]] = {}
        for one in lasting:
            if one.end is None:
                now.setdefault(one.lane.node, []).append(one)
        cards = [self._card(node, now.get(node, ())) for node in self.nodes]
        if len(cards) > _MOST_CARDS:
            cards.sort(key=lambda card: card["isWell"])
        return cards[:_MOST_CARDS]

    def _card(self, node: str, now: Sequence[Lasting]) -> dict[str, Any]:
        states = {(one.lane.kind, one.lane.name): one.style for one in now if one.row is Row.STATE}
        has_kubelet = (LaneKind.KUBELET, "") in states
        lines = [f"kubelet {'runs' if has_kubelet else 'does not run'}"]
        plugins = {name: states.get((LaneKind.PLUGIN, name), "") for name in self.plugins}
        lines += [f"{name} {_STATES.get(state, 'does not run')}" for name, state in plugins.items()]
        devices: dict[str, Counter[str]] = {}
        for one in now:
            if one.lane.kind is LaneKind.DEVICE and one.style in _WORDS:
                devices.setdefault(one.lane.resource, Counter())[one.style] += 1
        for resource, counts in sorted(devices.items()):
            known = (f"{counts[style]} {word}" for style, word in _WORDS.items() if counts[style])
            lines.append(f"{resource}: {', '.join(known)}")
        faults = [
            f"{self.device_name(node, one.lane.name) if one.lane.name else 'kubelet'}: {one.text}"
            for one in now
            if one.row is Row.FAULT
        ]
        is_well = has_kubelet and not faults and all(state == "up" for state in plugins.values())
        is_well = is_well and not any(counts["unhealthy"] for counts in devices.values())
        return {"name": node, "isWell": is_well, "lines": [visible(line) for line in (*lines, *sorted(faults))]}
