from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.model.errors import InputError
from simkubelet.model.resources import canonical_quantity, format_amount, is_extended_resource, parse_amount


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


@pytest.mark.parametrize("text", ["", "two", "1 Gi", "0x10", "1K", True])
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
    ],
)
def test_quantity_is_written_back_as_the_api_server_does(written: str | float, canonical: str) -> None:
    # What resource.Quantity of apimachinery v0.34.4 answers.
    assert canonical_quantity(written) == canonical


@given(st.integers(0, 2**60), st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "hugepages-2Mi"]))
def test_amount_is_read_as_it_was_written(amount: int, name: str) -> None:
    assert parse_amount(name, format_amount(name, amount)) == amount
