"""Selectors in CEL, and what they see of a device; the errors are those that the real compiler and scheduler give."""

from __future__ import annotations

import sys

import pytest

from simkubelet.cluster.cel.environment import environment
from simkubelet.cluster.objects.device_selector import (
    CompileError,
    SelectorError,
    compiled_selector,
    device_view,
    expression_refusal,
)
from tests.support.device_claims import DRIVER, device

VIEW = device_view(
    DRIVER,
    device(
        "gpu-0",
        {"memory": "40Gi"},
        index=3,
        healthy=True,
        model="A100",
        driverVersion={"version": "1.2.3-rc.1"},
        tags={"strings": ["a", "b"]},
        firmware={"versions": ["1.0.0", "2.0.0"]},
        **{"other.example.com/rack": "r0"},
    ),
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.attributes["gpu.example.com"].index == 3', True),
        ('device.attributes["gpu.example.com"].healthy', True),
        ('device.attributes["other.example.com"].rack == "r1"', False),
        ('device.attributes["gpu.example.com"].model.lowerAscii().matches("^a1.*")', True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("64Gi")) < 0', True),
        ('device.capacity["gpu.example.com"].memory == quantity("40960Mi")', True),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("39Gi"))', True),
        ('device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("1.2.3"))', True),
        ('device.attributes["gpu.example.com"].driverVersion.major() == 1', True),
        ('device.attributes["gpu.example.com"].index == "3"', False),
        ('has(device.attributes["absent.example.com"].rack)', False),
        ('"absent.example.com" in device.attributes', False),
        ('cel.bind(d, device.attributes["gpu.example.com"], d.healthy && d.index > 2)', True),
        ('device.attributes["gpu.example.com"].?missing.orValue("x") == "x"', True),
        ("device.allowMultipleAllocations", False),
        ('"b" in device.attributes["gpu.example.com"].tags', True),
        ('device.attributes["gpu.example.com"].firmware[1].major() == 2', True),
    ],
)
def test_expression_selects_device(expression: str, expected: bool) -> None:
    assert compiled_selector(expression).matches(VIEW) is expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "device.nothing == 1",
            "compilation failed: ERROR: <input>:1:7: undefined field 'nothing'\n | device.nothing == 1\n | ......^",
        ),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        (
            "device.driver = 1",
            "compilation failed: ERROR: <input>:1:15: Syntax error: token recognition error at: '= '\n"
            " | device.driver = 1\n | ..............^\n"
            "ERROR: <input>:1:17: Syntax error: extraneous input '1' expecting <EOF>\n"
            " | device.driver = 1\n | ................^",
        ),
    ],
)
def test_wrong_expression_is_refused(expression: str, message: str) -> None:
    with pytest.raises(CompileError) as raised:
        compiled_selector(expression)

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('device.attributes["gpu.example.com"].x == 1', "no such key: x"),
        ('device.attributes["absent.example.com"].x == 1', "no such key: x"),
        ('device.attributes["gpu.example.com"].index < "3"', "no such overload"),
        (
            'device.attributes["gpu.example.com"].model.compareTo(quantity("1")) == 0',
            "no such overload: compareTo(string, kubernetes.Quantity)",
        ),
        ("1 / 0 == 1", "division by zero"),
        (
            'device.attributes["gpu.example.com"].model',
            "CEL result of type string could not be converted to bool: "
            "unsupported native conversion from string to 'bool'",
        ),
    ],
)
def test_expression_that_cannot_be_evaluated_is_an_error(expression: str, message: str) -> None:
    with pytest.raises(SelectorError) as raised:
        compiled_selector(expression).matches(VIEW)

    assert str(raised.value) == message


def test_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    environment.cache_clear()

    with pytest.raises(CompileError, match=r"pip install cel-expr-python"):
        compiled_selector("device.driver == 'not compiled before'")


@pytest.mark.parametrize(
    ("expression", "refusal"),
    [
        ("(true", "compilation failed: ERROR: <input>:1:6: Syntax error: missing ')' at '<EOF>'\n | (true\n | .....^"),
        (
            "[1].sum() == (1",
            "compilation failed: ERROR: <input>:1:16: Syntax error: missing ')' at '<EOF>'\n | [1].sum() == (1\n"
            " | ...............^",
        ),
        (
            "true && devic.driver.x",
            "compilation failed: ERROR: <input>:1:9: undeclared reference to 'devic' (in container '')\n"
            " | true && devic.driver.x\n | ........^",
        ),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("[1].sum() == 1", None),
        ("1 < 2.0", None),
        ("[1].all(index, value, value > 0)", None),
        ('device.driver == "a"', None),
    ],
)
def test_expression_is_refused_where_the_real_compiler_refuses_it(expression: str, refusal: str | None) -> None:
    assert expression_refusal(expression) == refusal


def test_without_the_package_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    environment.cache_clear()
    try:
        assert expression_refusal("(") is None
    finally:
        environment.cache_clear()
