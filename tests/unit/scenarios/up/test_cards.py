"""What a live page shows of nodes."""

from __future__ import annotations

from scenarios.report.history import History
from scenarios.trace.events import PluginPaused, PluginStarted
from scenarios.trace.trace import Entry, Event
from scenarios.up.cards import Shown
from simkubelet.model.events import KubeletStarted, KubeletStopped


def history(*events: Event) -> History:
    made = History(None)
    for number, event in enumerate(events):
        made.take(Entry(number, 0.0, event))
    return made


def test_node_is_well_while_kubelet_and_plugins_run() -> None:
    shown = Shown(["node-1", "node-2"], ["gopher"])
    begun = [KubeletStarted(node, "v1.34.4") for node in shown.nodes]
    plugins = [PluginStarted("gopher", node, 1) for node in shown.nodes]

    def cards(*more: Event) -> dict[str, tuple[bool, list[str]]]:
        found = shown.cards(history(*begun, *plugins, *more).lasting())
        return {card["name"]: (card["isWell"], card["lines"]) for card in found}

    well = (True, ["kubelet runs", "gopher runs"])
    assert cards() == {"node-1": well, "node-2": well}
    assert cards(KubeletStopped("node-2"))["node-2"] == (False, ["kubelet does not run", "gopher runs"])
    assert cards(PluginPaused("gopher", "node-1")) == {
        "node-1": (False, ["kubelet runs", "gopher is paused"]),
        "node-2": well,
    }


def test_of_many_nodes_those_that_are_not_well_are_shown() -> None:
    nodes = [f"node-{number}" for number in range(100)]
    begun = [KubeletStarted(node, "v1.34.4") for node in nodes if node != "node-77"]

    cards = Shown(nodes).cards(history(*begun).lasting())

    assert (len(cards), cards[0]["name"], cards[1]["name"]) == (24, "node-77", "node-0")
