"""YAML as every parser of Kubernetes reads it: a text that one of them takes for something else is in quotes.

PyYAML quotes what it would itself read as something else. Go's parsers, those of kubectl and the API server, know more:
``y`` and ``n`` are booleans, ``1e3`` and ``09`` numbers, ``0o17`` is one, ``2026-1-2`` a date.

Source: goyaml.v2/resolve.go, ``resolveMap``, ``resolve`` (sigs.k8s.io/yaml v1.6.0).
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

__all__ = ["yaml_text"]

_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "", "<<", "="})
_LIKE_A_NUMBER: Final = re.compile(r"[-+.0-9][-+.:_0-9a-fA-FoOxXtTzZ ]*|[-+]?\.(inf|nan)", re.IGNORECASE)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and equal parts twice, which people can read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if text.lower() in _WORDS or _LIKE_A_NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(*documents: Any) -> str:
    """The text of documents, each of which is made of JSON's types, with their keys in the order that they have."""
    text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120)
    return text
