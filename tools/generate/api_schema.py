"""Write the files of `cluster.api.decoding` about the fields of the served kinds.

``schema.json`` has what the OpenAPI documents of Kubernetes (``api/openapi-spec/v3``) say: names, types, required
fields, and how lists and maps are merged; no descriptions and no defaults. They are of the newest release.
``schema_changes.json`` has what is different in a minor from the next one: a merge patch (RFC 7396) for each
definition, by ``MINOR/NAME``; a definition that a minor lacks is left as it is. ``field_numbers.json`` has the fields'
numbers in protobuf of all these releases, from the modules' ``generated.proto``. Each definition is on one line.

    python -m tools.generate.api_schema FOLDER

reads the modules kubernetes@v1.37.2, api@v0.37.2 and apimachinery@v0.37.2 in a folder, as Go's module cache has them,
and those of the release that each other minor stands for.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from simkubelet.model.version import SUPPORTED, version

TARGET = Path(__file__).resolve().parents[2] / "simkubelet" / "cluster" / "api" / "decoding"
REF: Final = "#/components/schemas/"
_OF_DEVICES: Final = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
ROOTS: Final = {
    "api__v1": (
        "Binding",
        "ConfigMap",
        "DeleteOptions",
        "Event",
        "Eviction",
        "Namespace",
        "Node",
        "Pod",
        "Secret",
        "ServiceAccount",
        "Status",
    ),
    "apis__apps__v1": ("ControllerRevision", "DaemonSet"),
    "apis__authentication.k8s.io__v1": ("SelfSubjectReview",),
    "apis__authorization.k8s.io__v1": ("SelfSubjectAccessReview",),
    "apis__coordination.k8s.io__v1": ("Lease",),
    "apis__events.k8s.io__v1": ("Event",),
    "apis__rbac.authorization.k8s.io__v1": ("ClusterRole", "ClusterRoleBinding"),
    "apis__resource.k8s.io__v1": (*_OF_DEVICES, "DeviceTaintRule"),
    "apis__resource.k8s.io__v1beta1": _OF_DEVICES,
    "apis__resource.k8s.io__v1beta2": _OF_DEVICES,
    "apis__scheduling.k8s.io__v1": ("PriorityClass",),
}


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without descriptions and defaults; what it refers to is a bare name."""
    (single,) = schema.get("allOf", [{}])
    if "$ref" in {**schema, **single}:
        extras = {key: value for key, value in schema.items() if key.startswith("x-")}
        return {"$ref": {**schema, **single}["$ref"].removeprefix(REF), **extras}
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("description", "default", "allOf"):
            continue
        if key == "properties":
            found[key] = {name: plain(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            found[key] = plain(value)
        elif key == "x-kubernetes-group-version-kind" and len(value) > 1:
            # Options of requests are of all groups there are.
            found[key] = [gvk for gvk in value if (gvk["group"], gvk["version"]) == ("", "v1")]
        else:
            found[key] = value
    return found


def referred(schema: object) -> set[str]:
    """Return the names that a schema refers to."""
    if isinstance(schema, dict):
        return {schema["$ref"]} if "$ref" in schema else set().union(*map(referred, schema.values()), set())
    return set().union(*map(referred, schema), set()) if isinstance(schema, list) else set()


def definitions(kubernetes: Path) -> dict[str, Any]:
    """Return the definitions of the served kinds that the module's release has, and of all that they are made of."""
    found: dict[str, Any] = {}
    for document, kinds in ROOTS.items():
        file = kubernetes / "api" / "openapi-spec" / "v3" / f"{document}_openapi.json"
        if not file.exists():
            continue
        schemas = json.loads(file.read_text())["components"]["schemas"]
        wanted = {
            name
            for name, schema in schemas.items()
            for gvk in schema.get("x-kubernetes-group-version-kind", ())
            if gvk["kind"] in kinds
        }
        while wanted:
            name = wanted.pop()
            if name not in found:
                found[name] = plain(schemas[name])
                wanted |= referred(found[name])
    return found


def merge_patch(old: Any, new: Any) -> Any:
    """Return the merge patch that makes one value of another."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    gone = dict.fromkeys(old.keys() - new.keys())
    changed = {name: merge_patch(old.get(name), value) for name, value in new.items() if old.get(name) != value}
    return dict(sorted({**gone, **changed}.items()))


def changes(usual: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a merge patch for each definition of another release that is not the usual one's."""
    return {
        name: merge_patch(usual.get(name, {}), schema) for name, schema in other.items() if usual.get(name) != schema
    }


def messages(proto: str) -> Iterator[tuple[str, dict[str, tuple[int, str]]]]:
    """Return the messages of a proto file by the name of their definition: fields with number and type."""
    (package,) = re.findall(r"^package k8s\.io\.(.*);", proto, re.MULTILINE)
    for message, body in re.findall(r"^message (\w+) {\n(.*?)^}", proto, re.MULTILINE | re.DOTALL):
        fields = re.findall(r"^  (?:optional |repeated |map)([\w.<>, ]+) (\w+) = (\d+);", body, re.MULTILINE)
        yield (
            f"io.k8s.{package}.{message}",
            {name: (int(number), f"io.k8s.{package}.{type_}") for type_, name, number in fields},
        )


def field_numbers(schemas: dict[str, Any], modules: list[Path]) -> dict[str, dict[str, Any]]:
    """Return the numbers of the definitions' fields.

    What JSON has in the object itself may be a message of its own in protobuf; it stands with its number and name.
    """
    known: dict[str, dict[str, tuple[int, str]]] = {}
    for module in modules:
        for path in module.rglob("generated.proto"):
            known |= dict(messages(path.read_text()))
    found: dict[str, dict[str, Any]] = {}
    waiting = {name: schema.get("properties", {}) for name, schema in schemas.items() if name in known}
    while waiting:
        name, properties = waiting.popitem()
        found[name] = {}
        for field, (number, type_) in known[name].items():
            embedded = bool(properties) and field not in properties and type_ in known
            found[name][field] = [number, type_] if embedded else number
            if embedded and type_ not in found:
                waiting[type_] = {inner: {} for inner in known[type_]}
    return found


def write(name: str, found: dict[str, Any]) -> None:
    """Write a file with one entry on a line."""
    lines = (f"{json.dumps(key)}:{json.dumps(found[key], separators=(',', ':'))}" for key in sorted(found))
    (TARGET / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()

    def module(name: str, release: str) -> Path:
        folder: Path = arguments.modules
        return folder / f"{name}@{release if name == 'kubernetes' else release.replace('v1.', 'v0.', 1)}"

    def numbers_of(schemas: dict[str, Any], release: str) -> dict[str, dict[str, Any]]:
        return field_numbers(schemas, [module("api", release), module("apimachinery", release)])

    newest, *older = (version(minor).kubelet_version for minor in reversed(SUPPORTED))
    found = definitions(module("kubernetes", newest))
    numbers, different, later = numbers_of(found, newest), dict[str, Any](), found
    for release in older:
        other = definitions(module("kubernetes", release))
        minor, its_numbers = release.removeprefix("v").rpartition(".")[0], numbers_of(other, release)
        different |= {f"{minor}/{name}": patch for name, patch in changes(later, other).items()}
        # A number is given once, so those of several releases go together.
        numbers |= {name: {**fields, **numbers.get(name, {})} for name, fields in its_numbers.items()}
        later = {**later, **other}
    write("schema.json", found)
    write("schema_changes.json", different)
    write("field_numbers.json", {name: fields for name, fields in numbers.items() if fields})


if __name__ == "__main__":
    main()
