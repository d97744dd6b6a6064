"""/healthz: the kubelet's named checks, and what it answers about them.

Source: k8s.io/apiserver, pkg/server/healthz/healthz.go (v0.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ..model.version import Version

__all__ = ["Answer", "Check", "answer_of_all", "answer_of_one", "checks_of"]

Check = Callable[[], str | None]
"""Why something is not healthy, None when it is."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status and body; `forbids_sniffing` stands for the header ``X-Content-Type-Options: nosniff``."""

    status: int
    text: str
    forbids_sniffing: bool = True


def checks_of(version: Version, *, sync_loop: Check, device_plugin: Check) -> dict[str, Check]:
    """The checks of a kubelet, in its order.

    Args:
        version: the minor.
        sync_loop: whether pods are looked at.
        device_plugin: whether plugins can register.

    Source: kubelet/server/server.go, ``InstallAuthNotRequiredHandlers`` (kubernetes v1.34.4).
    """
    checks: dict[str, Check] = {"ping": _well, "log": _well, "syncloop": sync_loop}
    return {**checks, "device-plugin": device_plugin} if version.has_device_plugin_check else checks


def answer_of_all(checks: Mapping[str, Check], *, excluded: Collection[str] = (), is_verbose: bool = False) -> Answer:
    """What /healthz answers; a failed check is named without its reason."""
    lines: list[str] = []
    has_failed = False
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif check() is None:
            lines.append(f"[+]{name} ok")
        else:
            has_failed = True
            lines.append(f"[-]{name} failed: reason withheld")
    if unknown := sorted(set(excluded) - checks.keys()):
        names = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    if has_failed:
        return Answer(500, "\n".join([*lines, "healthz check failed"]) + "\n")
    return Answer(200, "\n".join([*lines, "healthz check passed"]) + "\n" if is_verbose else "ok")


def answer_of_one(check: Check) -> Answer:
    """What /healthz/<name> answers, reason included."""
    reason = check()
    if reason is None:
        return Answer(200, "ok", forbids_sniffing=False)
    return Answer(500, f"internal server error: {reason}\n")


def _well() -> None:
    """The check of what cannot fail here."""
