"""Feature gates as a user gives them to a Kubernetes component: ``--feature-gates GATE=BOOL,...``.

Source: k8s.io/component-base v0.34.4, featuregate/feature_gate.go, ``Set``, ``SetFromMap``.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..golang.text import parse_bool
from ..model.errors import InputError
from ..model.version import FEATURE_GATES, Version

__all__ = ["read_feature_gates"]


def read_feature_gates(entries: Iterable[str], release: Version) -> dict[str, bool]:
    """Read ``GATE=BOOL`` each.

    Raises:
        InputError: a real component would not start with it, or the gate changes nothing that is simulated.
    """
    gates: dict[str, bool] = {}
    for entry in filter(None, (entry.strip() for entry in entries)):
        name, separator, value = entry.partition("=")
        if not separator:
            raise InputError(f"missing bool value for {name}")
        try:
            is_on = parse_bool(value.strip())
        except ValueError as error:
            raise InputError(f"invalid value of {name}={value.strip()}, err: {error}") from None
        gate = FEATURE_GATES.get(name.strip())
        if gate is None or not gate.exists(release):
            known = ", ".join(name for name, one in FEATURE_GATES.items() if one.exists(release))
            raise InputError(
                f"unrecognized feature gate: {name.strip()}; those simulated in 1.{release.minor} are {known}"
            )
        gates[gate.name] = is_on
    return gates
