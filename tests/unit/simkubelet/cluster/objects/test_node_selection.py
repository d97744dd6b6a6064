"""Taints and tolerations of any number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.objects import node_selection
from simkubelet.cluster.objects.node_selection import Tolerations, tolerates, untolerated_taint

_KEYS = st.sampled_from(["", "a", "b"])
_EFFECTS = st.sampled_from(["", "NoSchedule", "NoExecute"])
_TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={"key": _KEYS, "effect": _EFFECTS, "value": _KEYS, "operator": st.sampled_from(["Exists", "Equal"])},
    )
)
_TAINTS = st.fixed_dictionaries({"key": _KEYS, "effect": _EFFECTS}, optional={"value": _KEYS})


@given(_TOLERATIONS, _TAINTS)
def test_first_toleration_for_a_taint_is_found(tolerations: list[dict[str, Any]], taint: dict[str, Any]) -> None:
    expected = next((one for one in tolerations if tolerates(one, taint)), None)

    assert Tolerations(tolerations).first_for(taint) is expected


@pytest.mark.parametrize("key", ["k{}", ""])
def test_thousands_of_taints_are_compared_with_what_may_be_for_them(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    compared = []

    def counted(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
        compared.append(taint)
        return tolerates(toleration, taint)

    monkeypatch.setattr(node_selection, "tolerates", counted)
    taints = [{"key": f"k{number}", "effect": "NoSchedule"} for number in range(5_000)]
    others = [{"key": key.format(number), "operator": "Exists", "effect": "NoExecute"} for number in range(5_000)]
    fitting = [{"key": f"k{number}", "operator": "Exists"} for number in reversed(range(5_000))]

    assert untolerated_taint(taints, [*others, *fitting], ("NoSchedule",)) is None
    assert len(compared) <= 2 * len(taints)
