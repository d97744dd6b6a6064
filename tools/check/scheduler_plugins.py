"""Read from kube-scheduler's source which plugins are on by default, and at which extension points each takes part.

An extension point is an interface of the framework, such as ``ScorePlugin``; a plugin takes part where its type has all
methods of the interface.

Run as a program it prints what ``tools/generate/extension_points.yaml`` has differently. The exit status is 1 where
there is such a difference, and 3 where Go or the modules cannot be had.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from simkubelet.model.version import SUPPORTED, Version, version
from tools.build.go_build import BuildError
from tools.generate.extension_points import points_of

from .go_declarations import declarations
from .kubernetes_modules import Archive, Modules

__all__ = ["Published", "extension_points"]

_PLUGINS: Final = "pkg/scheduler/framework/plugins"
_DEFAULTS: Final = "pkg/scheduler/apis/config/v1/default_plugins.go"
_GATES: Final = ("pkg/features/kube_features.go", "pkg/features/versioned_kube_features.go")
_INTERFACES: Final = (
    ("kubernetes", "pkg/scheduler/framework/interface.go"),
    ("kube-scheduler", "framework/interface.go"),
)
_NO_POINTS: Final = frozenset({"Plugin", "ScoreExtensions", "PreFilterExtensions"})
_PARTS: Final = {"NormalizeScore": {"NormalizeScore"}, "PreFilterExtensions": {"AddPod", "RemovePod"}}
"""What plugins hand out by a method of their own, and implement themselves."""
_NON_CSI: Final = frozenset({"EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"})
_INTERFACE: Final = re.compile(r"type (\w+(?:Plugin|Extensions)) interface \{")
_METHOD: Final = re.compile(r"^\t(\w+)\(", re.MULTILINE)
_CONSTANT: Final = re.compile(r'^\s*(\w+)\s*=\s*"(\w+)"', re.MULTILINE)
_NAMED: Final = re.compile(r"\bnames\.(\w+)")
_IF_GATE: Final = re.compile(r"Enabled\(features\.(\w+)\) \{\n(.*?)\n\t\}\n", re.DOTALL)
_APPLY: Final = re.compile(r"\b(apply\w+)\(config\)")


class Published(Protocol):
    """Where modules come from; `kubernetes_modules.Modules` in earnest."""

    def archive(self, module: str, release: Version) -> Archive | None:
        """Return a module of a release; None where it is not published."""


def extension_points(published: Published, release: Version) -> dict[str, frozenset[str]]:
    """Return default plugin -> its extension points in a release.

    Raises:
        LookupError: the release is not published, or its source is not as expected.
    """
    kubernetes = published.archive("kubernetes", release)
    if kubernetes is None:
        raise LookupError(f"1.{release.minor}.{release.patch} is not published")
    interfaces = dict(_PARTS)
    for module, path in _INTERFACES:
        archive = published.archive(module, release)
        for name, text in declarations("" if archive is None else archive.text(path)).items():
            if _INTERFACE.match(text) and name not in _NO_POINTS:
                interfaces[name.removesuffix("Plugin")] = set(_METHOD.findall(text))
    methods = dict(_methods(kubernetes))
    found = {}
    for plugin in _defaults(kubernetes):
        own = methods.get("nonCSILimits" if plugin in _NON_CSI else plugin)
        if own is None:
            raise LookupError(f"{plugin} has no type in {_PLUGINS}")
        found[plugin] = frozenset(point for point, wanted in interfaces.items() if wanted and wanted <= own)
    return found


def _defaults(kubernetes: Archive) -> Iterator[str]:
    """Yield the names of the plugins that are on with the default gates."""
    names = dict(_CONSTANT.findall(kubernetes.text(f"{_PLUGINS}/names/names.go")))
    text = kubernetes.text(_DEFAULTS)
    functions = declarations(text)
    gates = "".join(map(kubernetes.text, _GATES))
    yield from (names[name] for name in _NAMED.findall(functions["getDefaultPlugins"]))
    for gate, body in _IF_GATE.findall(functions["applyFeatureGates"] + "\n"):
        if _is_on(gate, gates):
            body += "".join(functions[name] for name in _APPLY.findall(body))
            anchors = set(re.findall(r"\.Name == names\.(\w+)", body))
            yield from (names[name] for name in dict.fromkeys(_NAMED.findall(body)) if name not in anchors)


def _is_on(gate: str, features: str) -> bool:
    """Whether a gate is on by default: the last value of it where there is one for each version."""
    found = re.search(rf"^\t{gate}:\s*\{{(Default:.*|\n(?:\t\t.*\n)+)", features, re.MULTILINE)
    values: list[str] = re.findall(r"Default:\s*(true|false)", found[1] if found else "")
    if not values:
        raise LookupError(f"the gate {gate} has no default")
    return values[-1] == "true"


def _methods(kubernetes: Archive) -> Iterator[tuple[str, set[str]]]:
    """Yield plugin -> the methods of its type; a type that plugins of several names share has its own name."""
    names = dict(_CONSTANT.findall(kubernetes.text(f"{_PLUGINS}/names/names.go")))
    folders: dict[str, dict[str, str]] = {}
    for path in kubernetes.paths():
        if path.startswith(f"{_PLUGINS}/") and path.count("/") == _PLUGINS.count("/") + 2:
            folders.setdefault(path.rpartition("/")[0], {}).update(declarations(kubernetes.text(path)))
    for declared in folders.values():
        own: dict[str, set[str]] = {}
        for name in declared:
            receiver, _, method = name.partition(".")
            own.setdefault(receiver, set()).add(method)
        for receiver, methods in own.items():
            if "Name" in methods:
                yield _name(declared, receiver, names), methods


def _name(declared: Mapping[str, str], receiver: str, names: Mapping[str, str]) -> str:
    returned = re.search(r"return (?:names\.)?(\w+)", declared[f"{receiver}.Name"])
    constant = returned[1] if returned else ""
    if constant in names:
        return names[constant]
    value = re.search(r"= names\.(\w+)", declared.get(constant, ""))
    return names[value[1]] if value else receiver


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the list of extension points with kube-scheduler's source.")
    parser.add_argument("--minor", action="append", choices=SUPPORTED, help="a minor, such as 1.34; all by default")
    minors = parser.parse_args(arguments).minor or SUPPORTED
    differences = []
    try:
        modules = Modules()
        for minor in minors:
            real, ours = extension_points(modules, version(minor)), points_of(minor)
            for plugin in sorted(real.keys() | ours.keys()):
                has, listed = real.get(plugin, frozenset()), ours.get(plugin, frozenset())
                differences += [f"{minor} {plugin} has {point}, which is not listed" for point in sorted(has - listed)]
                differences += [f"{minor} {plugin} has no {point}, which is listed" for point in sorted(listed - has)]
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    for line in differences:
        print(line)
    print(f"{len(differences)} differences in {', '.join(minors)}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
