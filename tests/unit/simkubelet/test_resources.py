from __future__ import annotations

import pytest

from simkubelet.errors import InputError
from simkubelet.resources import is_extended_resource, parse_amount


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
