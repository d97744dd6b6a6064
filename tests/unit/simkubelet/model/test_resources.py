from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.model.errors import InputError
from simkubelet.model.resources import (
    canonical_quantity,
    format_amount,
    is_extended_resource,
    parse_amount,
    parse_quantity,
)


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu",
        "example.com/kubernetes.io",
        "limits.example.com/stub",
        "1/2",
        "example.com/Stub_1.x-Y",
        f"a.b/{'x' * 63}",
        f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 52}/x",
    ],
)
def test_names_that_the_kubelet_takes(name):
    assert is_extended_resource(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gpu",
        "cpu",
        "kubernetes.io/stub",
        "notkubernetes.io/stub",
        "requests.example.com/x",
        "Example.com/x",
        "a.b/",
        "/x",
        "a.b/c/d",
        "a.b/-x",
        "a.b/é",
        f"a.b/{'x' * 64}",
        f"{'a' * 245}/x",
        "a..b/x",
        "a.b/x\n",
    ],
)
def test_names_that_the_kubelet_refuses(name):
    assert not is_extended_resource(name)


@pytest.mark.parametrize(
    ("name", "text", "amount"),
    [
        ("cpu", "500m", 500),
        ("cpu", 2, 2000),
        ("cpu", "1.0001", 1001),
        ("memory", "1.5Gi", 3 * 2**29),
        ("memory", "128M", 128_000_000),
        ("memory", "1e3", 1000),
        ("nvidia.com/gpu", "8", 8),
        ("example.com/x", "1500m", 2),
    ],
)
def test_amounts_are_rounded_as_kubernetes_does(name, text, amount):
    assert parse_amount(name, text) == amount


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "two",
            "1 Gi",
            "0x10",
            "1K",
            True,
            "\u0663",
            "\uff11",
            "1\u0660",
            "1_000",
            "1\n",
            " 1",
            "1e3Ki",
            "1e",
            "e",
        ),
        *("e", "1e\u0663", "--1", "1..", "1.2.3", "Pi", ".Ei", "e-10", "nan", "inf", "1Kim", "1ki", "1K", "1E+"),
    ],
)
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(InputError, match="no Kubernetes quantity"):
        parse_amount("memory", text)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (4, "4"),
        (0.25, "250m"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("1000000", "1M"),
        ("0", "0"),
        ("-5", "-5"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("0.1Mi", "104857600m"),
        ("0Gi", "0"),
        ("12e6", "12e6"),
        ("1e4", "10e3"),
        ("5e-3", "5e-3"),
        ("1.0000000001", "1000000001n"),
        # Go keeps what is almost canonical, and reads no digit as zero.
        *((text, text) for text in ("+5", "08", "8.", "1.500", "86E6", "04k", "4E", "-3m")),
        *((text, "0") for text in (".", "+", "Ki", ".Ti", "m", "e5", "00")),
    ],
)
def test_quantity_is_written_back_as_the_api_server_does(written: str | float, canonical: str) -> None:
    # What resource.Quantity of apimachinery v0.34.4 answers.
    assert canonical_quantity(written) == canonical


@given(st.integers(0, 2**60), st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "hugepages-2Mi"]))
def test_amount_is_read_as_it_was_written(amount: int, name: str) -> None:
    assert parse_amount(name, format_amount(name, amount)) == amount


NUMBER = "[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)"
SUFFIX = "(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
LIKELY = st.text(alphabet="0123456789.+-eEinumkKMGTP _\n\u0663\uff11", max_size=8)


@given(text=LIKELY | st.from_regex(f"{NUMBER}{SUFFIX}", fullmatch=True) | st.text(max_size=6))
def test_text_with_a_digit_is_a_quantity_where_it_has_the_form_of_one(text: str) -> None:
    """A second grammar than the parser's; it has been compared with ``resource.ParseQuantity`` itself."""
    has_form = re.fullmatch(f"{NUMBER}{SUFFIX}", text, re.ASCII) is not None

    try:
        quantity = parse_quantity(text)
    except InputError:
        # What is beyond 64 bits is refused as well.
        assert not has_form or Decimal(re.split("[A-Za-z]", text)[0]).adjusted() > 0 or "e" in text.lower()
    else:
        assert has_form or quantity == 0
        assert parse_quantity(canonical_quantity(text)) >= quantity
