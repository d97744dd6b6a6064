"""What may be a name, a label or an annotation, and the sentences about what may not.

Source: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import re
from typing import Final

from ....model.version import DEFAULT, Difference, Version, version

__all__ = [
    "explained",
    "in_words_of",
    "is_c_identifier",
    "is_caseless_subdomain",
    "is_dns_label",
    "is_dns_subdomain",
    "is_dns_subdomain_with_underscores",
    "is_label_value",
    "is_path_segment",
    "is_qualified_name",
]

_CONTENT: Final = "apimachinery/pkg/api/validate/content/{}.go (v0.35.4); pkg/util/validation/validation.go (v0.34.4)"
_COUNTED_IN: Final = Difference(
    "what the texts about long labels count, and those about names that types of `resource.k8s.io` declare",
    {"1.26": "characters", "1.35": "bytes"},
    _CONTENT.format("errors"),
)
_KEY: Final = Difference(
    "what a key with several slashes is not",
    {"1.26": "a qualified name", "1.35": "a valid label key"},
    _CONTENT.format("kube"),
)
_SHOWS_UNDERSCORES: Final = Difference(
    "the text about a search path of DNS that may have underscores shows the expression that allows these",
    {"1.26": False, "1.34": True},
    "apimachinery/pkg/util/validation/validation.go, ``IsDNS1123SubdomainWithUnderscore`` (v0.33.13, v0.34.4)",
)
_NAMES_DOTS: Final = Difference(
    "the text about a label of DNS that is wrong for its dots says so",
    {"1.26": False, "1.27": True},
    "apimachinery/pkg/util/validation/validation.go, ``IsDNS1123Label`` (v0.26.15, v0.27.16)",
)
_USUAL: Final = version(DEFAULT)

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORED_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED: Final = rf"{_UNDERSCORED_LABEL}(\.{_UNDERSCORED_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"

_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_HAS_DOTS: Final = "must not contain dots"
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_UNDERSCORED_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_CASELESS_RULE: Final = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
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


def is_dns_label(text: str, release: Version | None = None) -> list[str]:
    """What keeps a text from being a DNS-1123 label; a release where a type declares that it is one.

    The text is that of 1.27 and newer, see `in_words_of`.
    """
    faults = _too_long(text, 63, release)
    if not re.fullmatch(_LABEL, text):
        faults.append(_HAS_DOTS if re.fullmatch(_SUBDOMAIN, text) else _no_label())
    return faults


def in_words_of(release: Version, fault: str) -> str:
    """What a release says of a name, whatever has asked about it."""
    return _no_label() if fault == _HAS_DOTS and not _NAMES_DOTS.at(release) else fault


def _no_label() -> str:
    return explained(_LABEL_RULE, _LABEL, "my-name", "123-abc")


def is_dns_subdomain(text: str, release: Version | None = None) -> list[str]:
    """What keeps a text from being a DNS-1123 subdomain; a release where it is in a label's key or declared."""
    faults = _too_long(text, 253, release)
    if not re.fullmatch(_SUBDOMAIN, text):
        faults.append(explained(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return faults


def is_dns_subdomain_with_underscores(text: str, release: Version) -> list[str]:
    """What keeps a text from being a subdomain that may have underscores, as search paths of DNS."""
    faults = _too_long(text, 253)
    if not re.fullmatch(_UNDERSCORED, text):
        shown = _UNDERSCORED if _SHOWS_UNDERSCORES.at(release) else _SUBDOMAIN
        faults.append(explained(_UNDERSCORED_RULE, shown, "example.com"))
    return faults


def is_caseless_subdomain(text: str, release: Version) -> list[str]:
    """What keeps a text from being a subdomain with letters of either case, where a type declares that it is one.

    Source: apimachinery/pkg/api/validate/content/dns.go, ``IsDNS1123SubdomainCaseless`` (v0.37.2).
    """
    faults = _too_long(text, 253, release)
    if not re.fullmatch(_SUBDOMAIN, text, re.IGNORECASE | re.ASCII):
        faults.append(explained(_CASELESS_RULE, _SUBDOMAIN, "Example.com"))
    return faults


def is_c_identifier(text: str) -> list[str]:
    """What keeps a text from being a name in C."""
    if re.fullmatch(_C_IDENTIFIER, text):
        return []
    return [explained(_C_IDENTIFIER_RULE, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def is_path_segment(text: str) -> list[str]:
    """What keeps a text from being a part of a URL's path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in text]


def is_label_value(text: str, release: Version | None = None) -> list[str]:
    """What keeps a text from being a label's value; in the words of a release, 1.34 where it is left out."""
    faults = _too_long(text, 63, release)
    if not re.fullmatch(_LABEL_VALUE, text):
        faults.append(explained(_LABEL_VALUE_RULE, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return faults


def is_qualified_name(text: str, release: Version | None = None) -> list[str]:
    """What keeps a text from being a label's or an annotation's key; in the words of a release as `is_label_value`."""
    examples = ("MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        rule = explained(_QUALIFIED_RULE, _QUALIFIED, *examples)
        name = _KEY.at(release or _USUAL)
        return [f"{name} {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    faults = []
    if slash:
        of_prefix = is_dns_subdomain(prefix, release) if prefix else ["must be non-empty"]
        faults = [f"prefix part {fault}" for fault in of_prefix]
    if not name:
        faults.append("name part must be non-empty")
    faults += [f"name part {fault}" for fault in _too_long(name, 63, release)]
    if not re.fullmatch(_QUALIFIED, name):
        faults.append(f"name part {explained(_QUALIFIED_RULE, _QUALIFIED, *examples)}")
    return faults


def _too_long(text: str, limit: int, release: Version | None = None) -> list[str]:
    counted_in = _COUNTED_IN.at(release or _USUAL)
    return [f"must be no more than {limit} {counted_in}"] if len(text.encode()) > limit else []


def explained(rule: str, pattern: str, *examples: str) -> str:
    """A rule with examples and the expression that checks it."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"
