"""What is read from a pod object."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.gpumemory.api_objects import Pod, amount, oldest_first, unsigned


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("0", 0), ("1024", 1024), ("1k", 1000), ("2Ki", 2048), ("1500m", 2), ("1e3", 1000), ("3E", 3 * 10**18), (4, 4)],
)
def test_quantities_are_whole_numbers_rounded_up(quantity: object, expected: int) -> None:
    assert amount(quantity) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", None),
        ("9" * 5000, None),
        ("0" * 5000 + "7", 7),
        ("-1", None),
        ("+1", None),
        ("1_000", None),
        (" 1", None),
        ("٣", None),
        ("", None),
        (None, None),
    ],
)
def test_numbers_are_read_as_by_go(text: str | None, expected: int | None) -> None:
    assert unsigned(text) == expected


def named(name: str) -> Pod:
    return Pod({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": []}})


@given(st.lists(st.integers(0, 3), max_size=12))
def test_pods_are_ordered_as_gos_insertion_sort_with_not_later_than_does(times: list[int]) -> None:
    pods = [named(str(place)) for place in range(len(times))]

    def time_of(pod: Pod) -> int:
        return times[int(pod.name)]

    expected = list(pods)
    for place in range(1, len(expected)):
        here = place
        while here > 0 and time_of(expected[here]) <= time_of(expected[here - 1]):
            expected[here], expected[here - 1] = expected[here - 1], expected[here]
            here -= 1
    assert oldest_first(pods, time_of) == expected


def test_limits_are_those_of_the_app_containers() -> None:
    spec: dict[str, Any] = {
        "initContainers": [{"name": "i", "resources": {"limits": {"x/y": "8"}}}],
        "containers": [
            {"name": "a", "resources": {"limits": {"x/y": "2k"}}},
            {"name": "b", "resources": {"limits": None}},
            {"name": "c"},
        ],
    }
    pod = Pod({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})

    assert pod.limits("x/y") == [2000, 0, 0]
    assert (pod.node, pod.is_pending, pod.annotations, pod.path) == ("", False, {}, "/api/v1/namespaces/n/pods/p")
