"""The software bill of materials of a release, in CycloneDX's JSON: what wheels are made of, and what they need.

A wheel has no library of others. What it derives from others is named as its components: the messages and types of
Kubernetes, and NVIDIA's header, against which the fake library is compiled. What pip installs with it has no version,
as a wheel names conditions only; the condition is a property of the component.

The same project at the same commit has the same document: its number is made from its name and version, and its time
is that of the commit.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

KUBERNETES: Final = {
    "k8s.io/kubelet": ("v0.34.4", "the messages of the kubelet's APIs"),
    "k8s.io/kubernetes": ("v1.37.2", "names and types of API objects"),
}
"""Go module -> its version, and what is derived from it: `simkubelet/apis/proto`, `simkubelet/cluster/api/decoding`."""
HEADER: Final = "nvidia-nvml-dev"
"""The build requirement that has ``nvml.h``."""
_NUMBERS: Final = uuid.uuid5(uuid.NAMESPACE_URL, "pkg:pypi/simkubelet")


def document(pyproject: Mapping[str, Any], commit_s: int) -> str:
    """Return the document as JSON.

    Args:
        pyproject: What pyproject.toml says.
        commit_s: When the commit was made, as Unix time.
    """
    project = pyproject["project"]
    whole = _package(Requirement(project["name"]), project["version"])
    whole.licenses.add(LicenseExpression(project["license"]))
    bom = Bom(
        serial_number=uuid.uuid5(_NUMBERS, project["version"]),
        metadata=BomMetaData(component=whole, timestamp=datetime.fromtimestamp(commit_s, UTC)),
    )
    needed = [_package(Requirement(text)) for text in project["dependencies"]]
    for component in (*_derived(pyproject), *needed):
        bom.components.add(component)
    bom.register_dependency(whole, needed)
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    return text + "\n"


def _package(requirement: Requirement, version: str | None = None) -> Component:
    """A package of PyPI: with its version, or as a condition."""
    name = re.sub(r"[-_.]+", "-", requirement.name).lower()
    condition = [Property(name="simkubelet:requirement", value=str(requirement))] if requirement.specifier else []
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        bom_ref=f"pkg:pypi/{name}",
        purl=PackageURL("pypi", name=name, version=version),
        scope=ComponentScope.REQUIRED,
        properties=condition,
    )


def _derived(pyproject: Mapping[str, Any]) -> list[Component]:
    """What files of a wheel were made from."""
    built_with = {one.name: one for one in map(Requirement, pyproject["build-system"]["requires"])}
    (version,) = [one.version for one in built_with[HEADER].specifier]
    header = _package(Requirement(HEADER), version)
    header.description = "nvml.h, which declares what the fake libnvidia-ml.so.1 implements"
    modules = [
        Component(
            type=ComponentType.LIBRARY,
            name=name,
            version=number,
            description=what,
            bom_ref=f"pkg:golang/{name}",
            purl=PackageURL.from_string(f"pkg:golang/{name}@{number}"),
            licenses=[LicenseExpression("Apache-2.0")],
        )
        for name, (number, what) in KUBERNETES.items()
    ]
    return [header, *modules]
