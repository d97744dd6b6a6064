"""How deep an expression may be: the least of each form that the real compiler refuses, and in which words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.cel.nesting import depth_error
from simkubelet.cluster.objects.device_selector import expression_refusal

PARSED = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
VISITED = "ERROR: <input>:-1:0: max recursion depth exceeded"
FORMS: dict[str, tuple[Callable[[int], str], int, str]] = {
    "brackets": (lambda depth: "(" * depth + "true" + ")" * depth, 250, PARSED),
    "lists": (lambda depth: "[" * depth + "]" * depth + " == []", 251, PARSED),
    "maps": (lambda depth: "{1: " * depth + "1" + "}" * depth + " == {}", 250, PARSED),
    "functions": (lambda depth: "size(" * depth + "'a'" + ")" * depth + " == 1", 250, PARSED),
    "choices": (lambda depth: "true ? true : " * depth + "true", 250, PARSED),
    "macros": (lambda depth: "[1].all(x, " * depth + "true" + ")" * depth, 250, PARSED),
    "choices in brackets": (lambda depth: "(true ? 1 == 1 : " * depth + "true" + ")" * depth, 125, PARSED),
    "right operands": (lambda depth: "(1 + 1 + " * depth + "1" + ")" * depth + " == 1", 125, PARSED),
    "products of sums": (lambda depth: "(1 + 1 * " * depth + "1" + ")" * depth + " == 1", 84, PARSED),
    "comparisons": (lambda depth: "(1 == 1 && 1 == " * depth + "1" + ")" * depth, 125, PARSED),
    "sum": (lambda depth: " + ".join(["1"] * depth) + " == 1", 251, VISITED),
    "products": (lambda depth: " + ".join(["1 * 1 * 1"] * depth) + " == 1", 249, VISITED),
    "comparison": (lambda depth: " == ".join(["1"] * depth), 252, VISITED),
    "members": (lambda depth: "device" + ".a" * depth + " == 1", 250, VISITED),
    "indices": (lambda depth: "device" + "[1]" * depth + " == 1", 250, VISITED),
    "calls": (lambda depth: "device.driver" + ".trim()" * depth + " == '1'", 249, VISITED),
    "arguments": (lambda depth: "device.driver" + ".replace(device.a.b.c, 'x')" * depth + " == '1'", 247, VISITED),
    "calls in arguments": (lambda depth: "size(device.a.b." * depth + "a" + ")" * depth + " == 1", 248, VISITED),
}


@pytest.mark.parametrize("form", FORMS)
def test_expression_is_too_deep_where_the_real_one_is(form: str) -> None:
    make, least, text = FORMS[form]

    assert (depth_error(make(least - 1)), depth_error(make(least))) == (None, text)


@pytest.mark.parametrize("expression", ["!" * 500 + "true", " && ".join(["true"] * 500), "'" + "(" * 500 + "' == ''"])
def test_what_is_long_need_not_be_deep(expression: str) -> None:
    assert depth_error(expression) is None


@given(st.text("ab1'\"\\.,?:()[]{}+-*=!<>&| \n"))
def test_any_text_has_a_depth(text: str) -> None:
    assert depth_error(text) is None


def test_deep_expression_is_refused_as_by_the_real_api_server() -> None:
    assert expression_refusal("(" * 250 + "true" + ")" * 250) == f"compilation failed: {PARSED}"


def test_nobody_knows_of_an_expression_that_only_the_package_finds_too_deep() -> None:
    assert expression_refusal("(" * 100 + "true" + ")" * 100) is None
