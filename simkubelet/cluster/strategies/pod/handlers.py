"""What an API server refuses in the probes and the hooks of containers.

Source: pkg/apis/core/validation/validation.go, ``validateProbe``, ``validateHandler``, ``validateLifecycle``,
``validateStopSignal`` (kubernetes v1.34.4, v1.37.0).
"""

from __future__ import annotations

from typing import Final

from ....model.version import Difference
from ...api.errors import FieldError
from .checks import Fields, PodRules, among, is_http_header, non_negative, port_errors, refused, required

__all__ = ["ZERO_SLEEP", "validate_lifecycle", "validate_probes"]

_KINDS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_ONE_ONLY: Final = "may not specify more than 1 handler type"
_NUMBERS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES: Final = ("HTTP", "HTTPS")
_PLAIN_SIGNALS: Final = (
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO",
    "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGRTMAX", "SIGRTMIN", "SIGSEGV",
    "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1",
    "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ",
)  # fmt: skip
_REAL_TIME: Final = (*(f"SIGRTMAX-{back}" for back in range(1, 15)), *(f"SIGRTMIN+{on}" for on in range(1, 16)))
_SIGNALS: Final = tuple(sorted((*_PLAIN_SIGNALS, *_REAL_TIME)))
_NAMES_GATE: Final = Difference(
    "the text about a hook that sleeps for 0 s names the gate that allows that",
    {"1.26": False, "1.32": True},
    "pkg/apis/core/validation/validation.go, ``validateSleepAction`` (kubernetes v1.31.14, v1.32.13)",
)
_OF_WINDOWS: Final = ("SIGKILL", "SIGTERM")
ZERO_SLEEP: Final = "PodLifecycleSleepActionAllowZero"


def validate_probes(rules: PodRules, container: Fields, grace_s: int | None, path: str) -> list[FieldError]:
    """What is wrong with a container's probes."""
    errors: list[FieldError] = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe, where = container.get(name), f"{path}.{name}"
        if probe is None:
            continue
        errors += _validate_probe(rules, probe, grace_s, where)
        if name == "readinessProbe":
            grace = probe.get("terminationGracePeriodSeconds")
            if grace is not None:
                text = "must not be set for readinessProbes"
                errors.append(FieldError.invalid(f"{where}.terminationGracePeriodSeconds", grace, text))
        elif (probe.get("successThreshold") or 0) != 1:
            errors.append(FieldError.invalid(f"{where}.successThreshold", probe.get("successThreshold"), "must be 1"))
    return errors


def _validate_probe(rules: PodRules, probe: Fields, grace_s: int | None, path: str) -> list[FieldError]:
    errors = _validate_handler(rules, {**probe, "sleep": None}, grace_s, path)
    for name in _NUMBERS:
        errors += non_negative(probe.get(name), f"{path}.{name}")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.append(FieldError.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    return errors


def validate_lifecycle(
    rules: PodRules, lifecycle: Fields, grace_s: int | None, system: str | None, path: str
) -> list[FieldError]:
    """What is wrong with a container's ``lifecycle``; `system` is the name of the pod's, None where it has none."""
    errors: list[FieldError] = []
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            errors += _validate_handler(rules, {**lifecycle[name], "grpc": None}, grace_s, f"{path}.{name}")
    signal = lifecycle.get("stopSignal")
    if signal is None:
        return errors
    where = f"{path}.stopSignal"
    if system is None:
        text = "may not be set for containers with empty `spec.os.name`"
        return [*errors, FieldError.forbidden(where, text)]
    signals = {"windows": _OF_WINDOWS, "linux": _SIGNALS}.get(system)
    return errors + ([] if signals is None else among(signal, signals, where))


def _validate_handler(rules: PodRules, handler: Fields, grace_s: int | None, path: str) -> list[FieldError]:
    given = [kind for kind in _KINDS if handler.get(kind) is not None]
    if not given:
        return [FieldError.required(path, "must specify a handler type")]
    action, where = handler[given[0]], f"{path}.{given[0]}"
    match given[0]:
        case "exec":
            errors = required(action, "command", where)
        case "httpGet":
            errors = _validate_request(action, where)
        case "sleep":
            errors = _validate_sleep(rules, action.get("seconds") or 0, grace_s, where)
        case _:
            errors = port_errors(action.get("port"), f"{where}.port")
    return errors + [FieldError.forbidden(f"{path}.{kind}", _ONE_ONLY) for kind in given[1:]]


def _validate_request(request: Fields, path: str) -> list[FieldError]:
    errors = required(request, "path", path)
    errors += port_errors(request.get("port"), f"{path}.port")
    errors += among(request.get("scheme") or "", _SCHEMES, f"{path}.scheme")
    for header in request.get("httpHeaders") or ():
        name = header.get("name") or ""
        errors += refused(name, f"{path}.httpHeaders", is_http_header(name))
    return errors


def _validate_sleep(rules: PodRules, seconds: int, grace_s: int | None, path: str) -> list[FieldError]:
    if grace_s is None or (seconds <= grace_s and (seconds > 0 or (not seconds and rules.allows(ZERO_SLEEP)))):
        return []
    text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
    if not rules.allows(ZERO_SLEEP):
        text = f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace_s})"
        if rules.of(_NAMES_GATE):
            text += ". Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
    return [FieldError.invalid(path, seconds, text)]
