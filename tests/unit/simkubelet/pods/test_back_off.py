from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simkubelet.model.pod import PodUID
from simkubelet.pods.pod_actions import RESET_AFTER_S, CrashLoopBackOff

POD = PodUID("u")


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_delays_double_from_ten_seconds_to_five_minutes():
    now = Time()
    back_off = CrashLoopBackOff(now)
    delays = []

    for _ in range(8):
        now.now_s += back_off.remaining_s(POD, "c", now())
        back_off.started(POD, "c")
        delays.append(back_off.delay_s(POD, "c"))

    assert delays == [10, 20, 40, 80, 160, 300, 300, 300]


def test_container_that_ran_for_ten_minutes_begins_again():
    now = Time()
    back_off = CrashLoopBackOff(now)
    for _ in range(4):
        back_off.started(POD, "c")

    now.now_s += RESET_AFTER_S + 1

    assert back_off.remaining_s(POD, "c", now()) == 0
    back_off.started(POD, "c")
    assert back_off.delay_s(POD, "c") == 10


@given(st.lists(st.integers(0, 9000).map(lambda tenths: tenths / 10), max_size=30))
def test_pause_is_never_longer_than_five_minutes_and_never_shrinks_without_a_long_run(runs_s: list[float]):
    now = Time()
    back_off = CrashLoopBackOff(now)
    last = 0.0
    for run_s in runs_s:
        now.now_s += run_s
        finished_at = now()
        pause = back_off.remaining_s(POD, "c", finished_at)
        assert 0 <= pause <= 300 + 1e-6
        now.now_s += pause
        assert back_off.remaining_s(POD, "c", finished_at) == 0
        back_off.started(POD, "c")
        delay = back_off.delay_s(POD, "c")
        assert delay >= last or run_s + pause >= RESET_AFTER_S - 1e-6
        last = delay


def test_pause_ends_ten_minutes_after_the_last_start_at_the_latest():
    now = Time()
    back_off = CrashLoopBackOff(now)
    for _ in range(6):
        back_off.started(POD, "c")
    assert back_off.delay_s(POD, "c") == 300

    now.now_s = 400

    assert back_off.remaining_s(POD, "c", now()) == 200
    now.now_s = 600
    assert back_off.remaining_s(POD, "c", 400) == 0
    back_off.started(POD, "c")
    assert back_off.delay_s(POD, "c") == 10


def test_containers_wait_each_for_themselves():
    back_off = CrashLoopBackOff(Time())

    back_off.started(POD, "c")

    assert back_off.remaining_s(POD, "c", 0.0) == 10
    assert back_off.remaining_s(POD, "other", 0.0) == 0
    back_off.forget(POD)
    assert back_off.remaining_s(POD, "c", 0.0) == 0
