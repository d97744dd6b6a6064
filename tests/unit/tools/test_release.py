"""The files of a release: what the bill of materials names, and what wheels may need of their platform."""

from __future__ import annotations

import json
import platform
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from fakegpu.state.library import find_library
from simkubelet._internal.native import find_supervisor
from tools.build import release, sbom
from tools.build.release import TARGETS, Target, WheelError, check, compiler_script

ROOT = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture
def document() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(sbom.document(PYPROJECT, 1_700_000_000))
    return read


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with the fake NVML that this machine's compiler made."""
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(find_library(), "fakegpu/lib/libnvidia-ml.so.1")
    return path


def target(libc: str) -> Target:
    return next(one for one in TARGETS.values() if platform.machine() in one.tag and one.tag.startswith(libc))


def test_bill_of_materials_names_every_dependency(document: dict[str, Any]) -> None:
    (whole,) = [one["dependsOn"] for one in document["dependencies"] if one["ref"] == "pkg:pypi/simkubelet"]
    names = [re.split("[<>=]", text)[0].lower() for text in PYPROJECT["project"]["dependencies"]]

    assert sorted(whole) == sorted(f"pkg:pypi/{name}" for name in names)


def test_bill_of_materials_names_the_versions_of_what_files_are_made_from(document: dict[str, Any]) -> None:
    versions = {one["name"]: one["version"] for one in document["components"] if "version" in one}
    proto = (ROOT / "simkubelet/apis/proto/deviceplugin_v1beta1.proto").read_text()
    schema = (ROOT / "tools/generate/api_schema.py").read_text()

    assert f"k8s.io/kubelet {versions['k8s.io/kubelet']}," in proto
    assert f"kubernetes@{versions['k8s.io/kubernetes']}," in schema
    assert f"nvidia-nvml-dev=={versions['nvidia-nvml-dev']}" in PYPROJECT["build-system"]["requires"]


def test_bill_of_materials_is_the_same_again_and_fits_its_schema(document: dict[str, Any]) -> None:
    text = sbom.document(PYPROJECT, 1_700_000_000)

    assert json.loads(text) == document
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_library_of_another_processor_is_refused(wheel: Path) -> None:
    (other,) = {one.machine for one in TARGETS.values()} - {target("manylinux").machine}

    with pytest.raises(WheelError, match=rf"a\.whl: fakegpu/lib/libnvidia-ml.so.1: it is for EM_\w+, not {other}"):
        check(wheel, next(one for one in TARGETS.values() if one.machine == other))


def test_program_of_another_processor_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(find_supervisor(), "simkubelet/lib/simkubelet-view")
    (other,) = {one.machine for one in TARGETS.values()} - {target("manylinux").machine}

    with pytest.raises(WheelError, match=rf"a\.whl: simkubelet/lib/simkubelet-view: it is for EM_\w+, not {other}"):
        check(path, next(one for one in TARGETS.values() if one.machine == other))


def test_library_with_another_c_library_is_refused(wheel: Path) -> None:
    with pytest.raises(WheelError, match=r"it needs .*libc\.so\.6"):
        check(wheel, target("musllinux"))


def test_library_with_newer_symbols_is_refused(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "GLIBC", (2, 0))

    with pytest.raises(WheelError, match=r"it needs GLIBC_2\.\d+"):
        check(wheel, target("manylinux"))


def test_library_with_old_symbols_is_taken(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "GLIBC", (2, 999))

    check(wheel, target("manylinux"))


def test_wheel_without_a_library_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w"):
        pass

    with pytest.raises(WheelError, match=r"a\.whl has no library"):
        check(tmp_path / "a.whl", target("manylinux"))


def test_compiler_of_a_target_writes_no_path_of_the_source() -> None:
    script = compiler_script(Path("/src"), TARGETS["musllinux_1_2_aarch64"])

    assert "-target aarch64-linux-musl -ffile-prefix-map=/src=. " in script
