"""A trace as lanes, moments, and what lasts between them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from scenarios.report import messages
from scenarios.report.history import History, Row
from scenarios.report.messages import API_SERVER, FAULTS, STORY, Lane, LaneKind
from scenarios.report.timeline import MOST_LANES, MOST_MOMENTS, Timeline, labels, of, read
from scenarios.trace.events import (
    ExpectationMet,
    FaultHealed,
    FaultInjected,
    PluginExited,
    PluginPaused,
    PluginResumed,
    PluginStarted,
    RegistrationAnswered,
    StepStarted,
)
from scenarios.trace.trace import Entry, Event
from simkubelet.model.events import (
    DevicesAllocated,
    DevicesListed,
    EventRecorded,
    KubeletStarted,
    KubeletStopped,
    NodeStatusUpdated,
    PluginDisconnected,
    PluginRegistered,
    PodRemoved,
    PodScheduled,
    PodStatusUpdated,
)

GPU = "example.com/gpu"


def entries(*events: Event) -> list[Entry]:
    return [Entry(seq, seq * 10.0, event, seq * 0.5) for seq, event in enumerate(events)]


def listed(*healthy: str, unhealthy: Sequence[str] = ()) -> DevicesListed:
    return DevicesListed("node-1", GPU, healthy, tuple(unhealthy))


def lasting(timeline: Timeline, lane: Lane, row: Row = Row.STATE) -> list[tuple[int, int | None, str]]:
    found = [one for one in timeline.lasting if (one.lane, one.row) == (lane, row)]
    return [(one.start, one.end, one.text or one.style) for one in found]


def device(name: str) -> Lane:
    return messages.device("node-1", GPU, name)


def test_lanes_stand_in_one_order() -> None:
    timeline = read(
        "sim",
        entries(
            PodStatusUpdated("a", "Pending", "", ""),
            listed("gpu-0"),
            PluginStarted("mine", "node-1", 1),
            NodeStatusUpdated("node-1", {}, {}),
            FaultInjected("node-2", "gpu-0", 79),
            StepStarted(1, "one"),
        ),
    )

    kubelet, plugin = messages.kubelet("node-1"), messages.plugin("node-1", "mine")
    assert timeline.lanes == (STORY, FAULTS, API_SERVER, kubelet, plugin, device("gpu-0"), messages.pod("a"))


def test_kubelet_and_its_devices_end_and_begin_again() -> None:
    timeline = read(
        "sim",
        entries(
            KubeletStarted("node-1", "v1.34.4"),
            listed("gpu-0"),
            KubeletStopped("node-1"),
            KubeletStarted("node-1", "v1.34.4"),
            listed(unhealthy=["gpu-0"]),
        ),
    )

    assert lasting(timeline, messages.kubelet("node-1")) == [(0, 2, "up"), (3, None, "up")]
    assert lasting(timeline, device("gpu-0")) == [(1, 2, "healthy"), (4, None, "unhealthy")]


def test_device_is_held_until_its_pod_has_ended() -> None:
    allocated = DevicesAllocated("node-1", "a", "main", GPU, ("gpu-0",))
    for last in (PodStatusUpdated("a", "Succeeded", "", ""), PodRemoved("a")):
        timeline = read("sim", entries(listed("gpu-0"), allocated, PluginDisconnected("node-1", GPU), last))

        assert lasting(timeline, device("gpu-0"), Row.USE) == [(1, 3, "a")]
        assert lasting(timeline, device("gpu-0")) == [(0, 2, "healthy")]


def test_what_a_pod_holds_is_drawn_over_a_later_state() -> None:
    allocated = DevicesAllocated("node-1", "a", "main", GPU, ("gpu-0",))

    timeline = read("sim", entries(listed("gpu-0"), allocated, listed(unhealthy=["gpu-0"])))

    assert [one.row for one in timeline.lasting] == [Row.STATE, Row.STATE, Row.USE]


def test_fault_lasts_on_each_device_of_its_gpu_until_it_is_healed() -> None:
    timeline = read(
        "sim",
        entries(
            listed("gpu-0::0", "gpu-0::1", "gpu-1::0"),
            FaultInjected("node-1", "gpu-0", 79),
            FaultHealed("node-1", "gpu-0"),
        ),
    )

    for name, expected in (("gpu-0::0", [(1, 2, "XID 79")]), ("gpu-0::1", [(1, 2, "XID 79")]), ("gpu-1::0", [])):
        assert lasting(timeline, device(name), Row.FAULT) == expected
    assert (timeline.moments[1].source, timeline.moments[1].target) == (FAULTS, device("gpu-0::0"))


def test_plugin_runs_pauses_and_ends() -> None:
    timeline = read(
        "sim",
        entries(
            PluginStarted("mine", "node-1", 1),
            PluginPaused("mine", "node-1"),
            PluginResumed("mine", "node-1"),
            PluginExited("mine", "node-1", 1, ""),
        ),
    )

    assert lasting(timeline, messages.plugin("node-1", "mine")) == [(0, 1, "up"), (1, 2, "paused"), (2, 3, "up")]


def test_pod_waits_from_what_is_first_recorded_of_it() -> None:
    warning = EventRecorded("a", "Warning", "FailedScheduling", "", "default-scheduler")

    timeline = read("sim", entries(warning, PodScheduled("a", "node-1"), PodStatusUpdated("a", "Running", "", "")))

    assert lasting(timeline, messages.pod("a")) == [(0, 2, "Pending"), (2, None, "Running")]


def test_registration_is_the_only_plugins_or_that_of_the_plugin_that_was_answered() -> None:
    one, two = PluginStarted("one", "node-1", 1), PluginStarted("two", "node-1", 1)
    registered = PluginRegistered("node-1", GPU, "s.sock")
    answered = RegistrationAnswered("two", "node-1", GPU, "s.sock", "")

    def source(*events: Event) -> str:
        timeline = read("sim", entries(*events, registered, listed("gpu-0")))
        return next(moment.source.name for moment in timeline.moments if moment.kind == registered.kind)

    assert source(one) == "one"
    assert source(one, two, answered) == "two"
    assert source(one, two) == GPU


def test_node_status_shows_only_what_changed_of_plugins_resources() -> None:
    def status(**gpus: int) -> NodeStatusUpdated:
        quantities = {"cpu": 8000, "pods": 110, **{f"example.com/{name}": count for name, count in gpus.items()}}
        return NodeStatusUpdated("node-1", quantities, {"cpu": 7000})

    timeline = read("sim", entries(status(), status(gpu=2, other=1), status(gpu=0, other=1)))

    assert [moment.text for moment in timeline.moments] == [
        "node status: no change of the resources of plugins",
        "node status: capacity example.com/gpu absent → 2, capacity example.com/other absent → 1",
        "node status: capacity example.com/gpu 2 → 0",
    ]


def test_few_devices_have_a_lane_each() -> None:
    timeline = read("sim", entries(listed(*(f"gpu-{number}" for number in range(8)))))

    assert len([lane for lane in timeline.lanes if lane.kind is LaneKind.DEVICE]) == 8


def test_many_devices_with_the_same_history_share_a_lane() -> None:
    names = [f"gpu-{number:05}" for number in range(10_000)]

    timeline = read("sim", entries(listed(*names), FaultInjected("node-1", names[7], 79)))

    devices = [lane for lane in timeline.lanes if lane.kind is LaneKind.DEVICE]
    assert [(lane.name, lane.others) for lane in devices] == [(names[0], 9_998), (names[7], 0)]
    assert labels(devices[0], several_nodes=False)[0] == "gpu-00000 and 9998 more"
    assert len(json.dumps(timeline.data())) < 5_000


def test_pods_beyond_the_most_lanes_share_the_last() -> None:
    timeline = read("sim", entries(*(PodStatusUpdated(f"pod-{n:03}", "Running", "", "") for n in range(200))))

    assert len([lane for lane in timeline.lanes if lane.kind is LaneKind.POD]) == MOST_LANES
    assert (timeline.lanes[-1].name, timeline.lanes[-1].others) == ("pod-047", 200 - MOST_LANES)


def test_beginning_of_a_long_trace_is_left_out() -> None:
    starts = [
        KubeletStarted("node-1", "v1.34.4"),
        *(StepStarted(number, "again") for number in range(MOST_MOMENTS + 50)),
    ]

    timeline = read("sim", entries(*starts))

    assert (len(timeline.moments), timeline.left_out) == (MOST_MOMENTS, 51)
    assert timeline.moments[0].seq == 51
    assert lasting(timeline, messages.kubelet("node-1")) == [(0, None, "up")]


def test_label_names_the_node_where_there_are_several() -> None:
    lane = messages.plugin("node-2", "mine")

    assert labels(lane, several_nodes=False) == ("plugin mine", "plugin mine on node-2")
    assert labels(lane, several_nodes=True)[0] == "plugin mine on node-2"


def test_long_device_name_is_shortened_in_its_middle() -> None:
    short, full = labels(device("GPU-169a1c55-0f76-5d0d-a2a5-6e244fdb88f0"), several_nodes=False)

    assert short == "GPU-169a…44fdb88f0"
    assert full == f"device GPU-169a1c55-0f76-5d0d-a2a5-6e244fdb88f0 of {GPU} on node-1"


NODES, NAMES, DEVICES = st.sampled_from(["node-1", "node-2"]), st.sampled_from("abc"), st.sets(st.sampled_from("0123"))
IDS = DEVICES.map(sorted).map(tuple)
EVENTS = st.one_of(
    st.builds(KubeletStarted, NODES),
    st.builds(KubeletStopped, NODES),
    st.builds(PluginStarted, NAMES, NODES, st.just(1)),
    st.builds(PluginExited, NAMES, NODES, st.just(0), st.just("")),
    st.builds(DevicesListed, NODES, NAMES, IDS, IDS),
    st.builds(DevicesAllocated, NODES, NAMES, st.just("main"), NAMES, IDS),
    st.builds(PluginDisconnected, NODES, NAMES),
    st.builds(FaultInjected, NODES, st.sampled_from("0123"), st.just(79)),
    st.builds(PodStatusUpdated, NAMES, st.sampled_from(["Running", "Failed"]), st.just(""), st.just("")),
    st.builds(PodRemoved, NAMES),
    st.builds(ExpectationMet, st.just(0)),
)


@given(st.lists(EVENTS, max_size=40))
def test_data_of_any_trace_refers_to_lanes_and_moments_that_are_there(events: list[Event]) -> None:
    data = json.loads(json.dumps(read("sim", entries(*events)).data()))

    lanes, moments = range(len(data["lanes"])), range(len(data["moments"]))
    assert len(moments) == len(events)
    assert all(source in lanes and target in lanes for _, _, _, source, target, *_ in data["moments"])
    for lane, _, start, end, *_ in data["lasting"]:
        assert lane in lanes
        assert start in moments
        assert end is None or (end in moments and end >= start)


def live(*events: Event, most: int = 1000) -> Timeline:
    """The timeline of a trace that is read while it is recorded."""
    history = History(None, most)
    for entry in entries(*events):
        history.take(entry)
    return of("live", history)


def test_history_without_end_knows_devices_and_plugin_from_what_it_took() -> None:
    timeline = live(
        KubeletStarted("node-1", "v1.34.4"),
        PluginStarted("mine", "node-1", 1),
        PluginRegistered("node-1", GPU, "mine.sock"),
        listed("gpu-0", "gpu-1"),
        KubeletStopped("node-1"),
        FaultInjected("node-1", "gpu-1", 79),
    )

    assert [lane.name for lane in timeline.lanes if lane.kind is LaneKind.PLUGIN] == ["mine"]
    assert lasting(timeline, device("gpu-1"), Row.FAULT) == [(5, None, "XID 79")]
    assert lasting(timeline, device("gpu-0")) == [(3, 4, "healthy")]


def test_history_without_end_keeps_what_lasts_from_before_its_moments() -> None:
    again = [PodStatusUpdated("a", phase, "", "") for phase in ("Running", "Pending") * 30]

    timeline = live(KubeletStarted("node-1", "v1.34.4"), listed("gpu-0"), *again, KubeletStopped("node-1"), most=10)

    assert (len(timeline.moments), timeline.left_out) == (10, 53)
    assert lasting(timeline, messages.kubelet("node-1")) == [(0, 9, "up")]
    assert lasting(timeline, messages.pod("a"))[-1] == (8, None, "Pending")


def test_history_without_end_forgets_devices_and_pods_that_are_gone() -> None:
    history = History(None, 10)

    def size() -> int:
        return len(json.dumps(of("live", history).data())) + len(pickle.dumps(history))

    sizes = []
    for turn in range(30):
        for number in range(20 * turn, 20 * turn + 20):
            pod, name = f"pod-{number:06}", f"gpu-{number:06}"
            gone = (PodStatusUpdated(pod, "Running", "", ""), listed(name), PodRemoved(pod))
            for event in gone:
                history.take(Entry(number, 0.0, event, 0.0))
        sizes.append(size())

    assert max(sizes[10:]) < 1.5 * sizes[2]


def test_pod_known_by_events_alone_goes_with_them() -> None:
    about = [EventRecorded(f"none-{n}", "Normal", "Said", "", "a-client") for n in range(1000)]

    timeline = live(*about, PodScheduled("none-999", "node-1"), *[KubeletStarted("node-1", "v1")] * 30, most=10)

    assert [(one.lane.name, one.style) for one in timeline.lasting if one.lane.kind is LaneKind.POD] == [
        ("none-999", "pending")
    ]


def test_history_without_end_keeps_no_long_texts_of_clients() -> None:
    text = "x" * 1_000_000
    resources = {f"a.b/{n}": "1" for n in range(60_000)}

    timeline = live(
        EventRecorded(text, "Normal", text, text, text),
        PodStatusUpdated("a", "Running", text, text),
        listed(text),
        *(NodeStatusUpdated(f"node-{n}", resources, {}) for n in range(5)),
    )

    assert len(json.dumps(timeline.data())) < 200_000
    assert len(pickle.dumps(timeline)) < 200_000


def test_status_of_a_node_is_compared_with_the_one_before() -> None:
    many = {f"a.b/{n}": "1" for n in range(60_000)}
    one = {"a.b/gpu": "1"}

    timeline = live(
        NodeStatusUpdated("node-1", one, one),
        *(NodeStatusUpdated(f"other-{n}", many, {}) for n in range(2)),
        NodeStatusUpdated("other-1", {**many, "a.b/more": "1"}, {}),
        NodeStatusUpdated("node-1", one, {"a.b/gpu": "2"}),
    )

    assert timeline.moments[-2].text == "node status: capacity a.b/more absent → 1"
    assert timeline.moments[-1].text.startswith("node status: capacity a.b/gpu absent → 1")
