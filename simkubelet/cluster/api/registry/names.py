"""What may be a name, a label or an annotation, and the sentences about what may not.

Source: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "is_c_identifier",
    "is_dns_label",
    "is_dns_subdomain",
    "is_label_value",
    "is_path_segment",
    "is_qualified_name",
]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"

_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_C_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'"
)
_LABEL_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def is_dns_label(text: str) -> list[str]:
    """What keeps a text from being a DNS-1123 label."""
    faults = _too_long(text, 63)
    if not re.fullmatch(_LABEL, text):
        faults.append(
            "must not contain dots"
            if re.fullmatch(_SUBDOMAIN, text)
            else _rule(_LABEL_RULE, _LABEL, "my-name", "123-abc")
        )
    return faults


def is_dns_subdomain(text: str) -> list[str]:
    """What keeps a text from being a DNS-1123 subdomain."""
    faults = _too_long(text, 253)
    if not re.fullmatch(_SUBDOMAIN, text):
        faults.append(_rule(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return faults


def is_c_identifier(text: str) -> list[str]:
    """What keeps a text from being a name in C."""
    if re.fullmatch(_C_IDENTIFIER, text):
        return []
    return [_rule(_C_IDENTIFIER_RULE, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def is_path_segment(text: str) -> list[str]:
    """What keeps a text from being a part of a URL's path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in text]


def is_label_value(text: str) -> list[str]:
    """What keeps a text from being a label's value."""
    faults = _too_long(text, 63)
    if not re.fullmatch(_LABEL_VALUE, text):
        faults.append(_rule(_LABEL_VALUE_RULE, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return faults


def is_qualified_name(text: str) -> list[str]:
    """What keeps a text from being a label's or an annotation's key."""
    examples = ("MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        rule = _rule(_QUALIFIED_RULE, _QUALIFIED, *examples)
        return [f"a qualified name {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    faults = []
    if slash:
        faults = [f"prefix part {fault}" for fault in (is_dns_subdomain(prefix) if prefix else ["must be non-empty"])]
    if not name:
        faults.append("name part must be non-empty")
    faults += [f"name part {fault}" for fault in _too_long(name, 63)]
    if not re.fullmatch(_QUALIFIED, name):
        faults.append(f"name part {_rule(_QUALIFIED_RULE, _QUALIFIED, *examples)}")
    return faults


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if len(text.encode()) > limit else []


def _rule(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"
