"""What a scraper of /metrics reads: the kubelet's metrics in Prometheus' text format, as Go's client writes it.

It is written here and not by prometheus_client, which appends ``_total`` to the name of every counter; half of the
kubelet's counters have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import Final

from ..model.config import ScopeName
from ..model.metrics import Histogram, Metrics, PodResourcesMethod
from ..model.version import Difference, Version

__all__ = ["PluginSockets", "content_type", "exposition"]

_METRICS_ESCAPING: Final = Difference(
    "how the content type of /metrics says that names are escaped; none where it does not say",
    {"1.26": None, "1.31": "values", "1.33": "underscores"},
    "prometheus/common, expfmt/encode.go, ``Negotiate`` (v0.44.0, v0.55.0, v0.62.0); go.mod (kubernetes v1.30.14, "
    "v1.31.14, v1.33.13)",
)
_HAS_ADMISSION_REJECTIONS_METRIC: Final = Difference(
    "/metrics counts rejected pods by reason",
    {"1.26": False, "1.32": True},
    "kubelet/metrics/metrics.go (kubernetes v1.31.14, v1.32.13)",
)
_HAS_TOPOLOGY_METRICS: Final = Difference(
    "/metrics has the admissions of the topology manager",
    {"1.26": False, "1.27": True},
    "kubelet/metrics/metrics.go (kubernetes v1.26.15, v1.27.16)",
)
_HAS_ALIGNMENT_METRICS: Final = Difference(
    "/metrics counts the containers that single-numa-node admitted",
    {"1.26": False, "1.32": True},
    "kubelet/metrics/metrics.go (kubernetes v1.31.14, v1.32.13)",
)
_HAS_ALIGNMENT_FAILURE_METRICS: Final = Difference(
    "/metrics counts the containers that single-numa-node rejected",
    {"1.26": False, "1.33": True},
    "kubelet/metrics/metrics.go (kubernetes v1.32.13, v1.33.13)",
)

_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class _Family:
    """One metric: the values of its label sets, each (names, values) in the order of the source."""

    name: str
    kind: _Kind
    help: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float | Histogram]

    def lines(self) -> Iterable[str]:
        yield f"# HELP {self.name} [ALPHA] {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in sorted(self.values.items(), key=lambda entry: self._sorted_labels(entry[0])):
            pairs = self._sorted_labels(labels)
            if isinstance(value, Histogram):
                yield from _histogram_lines(self.name, pairs, value)
            else:
                yield _sample(self.name, pairs, _number(value))

    def _sorted_labels(self, values: tuple[str, ...]) -> list[tuple[str, str]]:
        return sorted(zip(self.labels, values, strict=True))


@dataclass(frozen=True, slots=True)
class PluginSockets:
    """Sockets in the plugin manager's desired and actual state."""

    desired: frozenset[Path] = frozenset()
    registered: frozenset[Path] = frozenset()


def exposition(metrics: Metrics, plugins: PluginSockets, version: Version, *, is_get_on: bool) -> str:
    """The text of /metrics; a metric with labels is there from its first value on.

    Args:
        metrics: the kubelet's numbers.
        plugins: what the plugin manager knows.
        version: the minor.
        is_get_on: whether the gate of PodResources' Get is on: its metrics are there with it only.
    """
    families = [
        *_device_plugin_families(metrics),
        *_pod_resources_families(metrics, is_get_on=is_get_on),
        *_admission_families(metrics, version),
        *_topology_families(metrics, version),
        *_node_families(metrics, plugins),
    ]
    shown = sorted((family for family in families if family.values), key=lambda family: family.name)
    return "".join(f"{line}\n" for family in shown for line in family.lines())


def content_type(version: Version) -> str:
    """The content type of /metrics, for who asks for no other."""
    escaping = _METRICS_ESCAPING.at(version)
    return _CONTENT_TYPE if escaping is None else f"{_CONTENT_TYPE}; escaping={escaping}"


def _device_plugin_families(metrics: Metrics) -> list[_Family]:
    by_resource = ("resource_name",)
    return [
        _Family(
            "kubelet_device_plugin_registration_total",
            _Kind.COUNTER,
            "Cumulative number of device plugin registrations. Broken down by resource name.",
            by_resource,
            {(name,): calls for name, calls in metrics.registrations.items()},
        ),
        _Family(
            "kubelet_device_plugin_alloc_duration_seconds",
            _Kind.HISTOGRAM,
            "Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
            by_resource,
            {(name,): durations for name, durations in metrics.allocations.items()},
        ),
    ]


def _pod_resources_families(metrics: Metrics, *, is_get_on: bool) -> list[_Family]:
    methods = {
        PodResourcesMethod.LIST: "List",
        PodResourcesMethod.GET_ALLOCATABLE: "GetAllocatableResources",
        **({PodResourcesMethod.GET: "Get"} if is_get_on else {}),
    }
    families = [
        _pod_resources_family(
            f"requests_{method}",
            f"Number of requests to the PodResource {name} endpoint.",
            {api: calls for (called, api), calls in metrics.pod_resources_methods.items() if called is method},
        )
        for method, name in methods.items()
    ]
    if is_get_on:
        text = "Number of requests to the PodResource Get endpoint which returned error."
        families.append(_pod_resources_family("errors_get", text, metrics.pod_resources_get_errors))
    text = "Cumulative number of requests to the PodResource endpoint."
    families.append(_pod_resources_family("requests_total", text, metrics.pod_resources_requests))
    return families


def _pod_resources_family(name: str, text: str, by_api: Mapping[str, int]) -> _Family:
    return _Family(
        f"kubelet_pod_resources_endpoint_{name}",
        _Kind.COUNTER,
        f"{text} Broken down by server api version.",
        ("server_api_version",),
        {(api,): calls for api, calls in by_api.items()},
    )


def _admission_families(metrics: Metrics, version: Version) -> list[_Family]:
    if not _HAS_ADMISSION_REJECTIONS_METRIC.at(version):
        return []
    return [
        _Family(
            "kubelet_admission_rejections_total",
            _Kind.COUNTER,
            "Cumulative number pod admission rejections by the Kubelet.",
            ("reason",),
            {(reason,): number for reason, number in metrics.admission_rejections.items()},
        )
    ]


def _topology_families(metrics: Metrics, version: Version) -> list[_Family]:
    if not _HAS_TOPOLOGY_METRICS.at(version):
        return []
    return [
        _Family(
            "kubelet_topology_manager_admission_requests_total",
            _Kind.COUNTER,
            "The number of admission requests where resources have to be aligned.",
            (),
            {(): metrics.topology.requests},
        ),
        _Family(
            "kubelet_topology_manager_admission_errors_total",
            _Kind.COUNTER,
            "The number of admission request failures where resources could not be aligned.",
            (),
            {(): metrics.topology.errors},
        ),
        _Family(
            "kubelet_topology_manager_admission_duration_ms",
            _Kind.HISTOGRAM,
            "Duration in milliseconds to serve a pod admission request.",
            (),
            {(): metrics.admissions},
        ),
        *_alignment_families(metrics, version),
    ]


def _alignment_families(metrics: Metrics, version: Version) -> list[_Family]:
    families = []
    if _HAS_ALIGNMENT_METRICS.at(version):
        families.append(
            _alignment_family(
                "kubelet_container_aligned_compute_resources_count",
                "Cumulative number of aligned compute resources allocated to containers by alignment type.",
                metrics.topology.aligned,
            )
        )
    if _HAS_ALIGNMENT_FAILURE_METRICS.at(version):
        families.append(
            _alignment_family(
                "kubelet_container_aligned_compute_resources_failure_count",
                "Cumulative number of failures to allocate aligned compute resources to containers by alignment type.",
                metrics.topology.not_aligned,
            )
        )
    return families


def _alignment_family(name: str, text: str, by_scope: Mapping[ScopeName, int]) -> _Family:
    values: dict[tuple[str, ...], float | Histogram] = {
        (scope.value, "numa_node"): number for scope, number in by_scope.items() if number
    }
    return _Family(name, _Kind.COUNTER, text, ("scope", "boundary"), values)


def _node_families(metrics: Metrics, plugins: PluginSockets) -> list[_Family]:
    states = {"actual_state_of_world": plugins.registered, "desired_state_of_world": plugins.desired}
    return [
        _Family(
            "kubelet_running_pods",
            _Kind.GAUGE,
            "Number of pods that have a running pod sandbox",
            (),
            {(): metrics.running_pods},
        ),
        _Family(
            "kubelet_running_containers",
            _Kind.GAUGE,
            "Number of containers currently running",
            ("container_state",),
            {(state,): number for state, number in metrics.running_containers.items()},
        ),
        _Family(
            "plugin_manager_total_plugins",
            _Kind.GAUGE,
            "Number of plugins in Plugin Manager",
            ("socket_path", "state"),
            {(str(socket), state): 1 for state, sockets in states.items() for socket in sockets},
        ),
    ]


def _histogram_lines(name: str, labels: Sequence[tuple[str, str]], histogram: Histogram) -> Iterable[str]:
    bounds = [*(_number(bound) for bound in histogram.bounds), "+Inf"]
    sums = list(accumulate(histogram.counts))
    for bound, observations in zip(bounds, sums, strict=True):
        yield _sample(f"{name}_bucket", [*labels, ("le", bound)], str(observations))
    yield _sample(f"{name}_sum", labels, _number(histogram.total))
    yield _sample(f"{name}_count", labels, str(sums[-1]))


def _sample(name: str, labels: Sequence[tuple[str, str]], value: str) -> str:
    if not labels:
        return f"{name} {value}"
    pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{pairs}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """A number as Go's ``strconv.FormatFloat(value, 'g', -1, 64)`` writes it."""
    number = Decimal(repr(value)).normalize()
    exponent = number.adjusted()
    if number == 0 or -4 <= exponent < 6:
        return format(number, "f")
    digits = "".join(str(digit) for digit in number.as_tuple().digits)
    mantissa = digits[0] + (f".{digits[1:]}" if digits[1:] else "")
    return f"{mantissa}e{exponent:+03d}"
