"""What is written as YAML is read as the same by PyYAML and by Go's parsers."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.yaml_text import yaml_text

# goyaml.v2/resolve.go (sigs.k8s.io/yaml v1.6.0), ``resolveMap``.
GO_WORDS = (
    *("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"),
    *("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"),
    *("", "~", "null", "Null", "NULL", ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "-.inf", "<<"),
)
GO_NUMBERS = (
    *("0", "1", "-1", "+1", "1_000", "0x1f", "0X1F", "-0x1f", "0b1", "-0b1", "0o17", "017", "09", "1e3", "1E3", "1e+3"),
    *("1.", ".5", "1.5e3", "-.5", "1:20", "190:20:30", "1:20.5", "2026-1-2", "2026-01-02", "2026-01-02T03:04:05Z"),
    *("2026-01-02 03:04:05", "2026-1-2t3:4:5.5z", "1.35", "=", "1__0", "0x_1", "-", "."),
)
# The same file, ``yamlStyleFloat`` and what ``strconv.ParseInt`` takes once underscores are away.
GO_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
GO_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[0-9]+)")
GO_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9:.]+.*)?")


def is_text_in_go(plain: str) -> bool:
    bare = plain.replace("_", "")
    patterns = (GO_FLOAT, GO_INTEGER, GO_DATE)
    return plain not in GO_WORDS and not any(one.fullmatch(bare) or one.fullmatch(plain) for one in patterns)


def scalar(text: str) -> yaml.Node:
    return yaml.compose(yaml_text({"a": text})).value[0][1]


@pytest.mark.parametrize("text", [*GO_WORDS, *GO_NUMBERS])
def test_text_that_looks_like_something_else_is_in_quotes(text: str) -> None:
    assert scalar(text).style in ("'", '"')
    assert yaml.safe_load(yaml_text({text: text})) == {text: text}


@pytest.mark.parametrize(
    "text", ["node-1", "10s", "1h30m", "nvidia.com/gpu", "v1", "yesterday", "node", "https://[::1]:6443"]
)
def test_other_text_is_written_as_it_is(text: str) -> None:
    assert yaml_text({"a": text}) == f"a: {text}\n"


@given(text=st.text() | st.text(alphabet="0123456789.:_-+eExXoObBtTzZ aAyYnN~", max_size=8))
def test_text_is_read_as_text(text: str) -> None:
    node = scalar(text)

    assert yaml.safe_load(yaml_text({"a": [text]})) == {"a": [text]}
    assert node.style is not None or is_text_in_go(text)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_document_is_read_as_it_was(value: Any) -> None:
    twice = [value, value]

    assert list(yaml.safe_load_all(yaml_text(twice, twice))) == [twice, twice]


@pytest.mark.parametrize("name", ["y", "n", "on", "null", "1e3", "0x1f", "017", "2026-1-2"])
def test_kubeconfig_of_any_name_is_read_as_text(name: str) -> None:
    text = yaml_text({"current-context": name, "contexts": [{"name": name, "context": {"cluster": name}}]})

    assert re.findall(rf"['\"]{name}['\"]", text) == [f"'{name}'"] * 3
