"""Fed in: import lines and a small project; observed: those that are not public, and which of ours are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check import imports

MODULES = {
    "simkubelet/__init__.py": '__all__ = ["Kubelet"]',
    "simkubelet/host.py": '__all__ = ["NodeView"]\nhidden = 1',
    "simkubelet/cluster/__init__.py": '__all__ = ["Store"]',
    "simkubelet/cluster/store.py": '__all__ = ["Store"]',
    "simkubelet/model/__init__.py": "",
    "simkubelet/model/errors.py": '__all__: list[str] = ["InputError"]',
    "simkubelet/_internal/__init__.py": '__all__ = ["lazy"]',
    "fakegpu/__init__.py": '__all__ = ["Machine"]',
    "fakegpu/vendors/__init__.py": "",
    "fakegpu/vendors/iluvatar.py": '__all__ = ["set_health"]',
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in MODULES.items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "import simkubelet",
        "import json, os.path",
        "from . import cluster",
        "from simkubelet import Kubelet",
        "from simkubelet.host import NodeView",
        "from simkubelet.cluster import Store",
        "from simkubelet.model.errors import InputError",
        "from fakegpu.vendors import iluvatar",
        "from fakegpu.vendors.iluvatar import set_health",
    ],
)
def test_public_names_may_be_imported(project: Path, line: str) -> None:
    assert list(imports.findings(project, line)) == []


@pytest.mark.parametrize(
    "line",
    [
        "from simkubelet import Store",
        "from simkubelet.host import hidden",
        "from simkubelet.cluster.store import Store",
        "from simkubelet.model.errors import HostError",
        "from simkubelet.nowhere import Store",
        "import simkubelet.cluster.store",
        "from simkubelet._internal import lazy",
        "from fakegpu.vendors.iluvatar import remove",
        "if True:\n    from simkubelet.cluster.store import Store",
    ],
)
def test_other_names_are_found(project: Path, line: str) -> None:
    assert len(list(imports.findings(project, line))) == 1


def test_our_own_importers_use_public_names_only() -> None:
    files = [path for folder in imports.IMPORTERS for path in (imports.ROOT / folder).rglob("*.py")]
    found = {path.name: list(imports.findings(imports.ROOT, path.read_text())) for path in files}

    assert files
    assert {name: offences for name, offences in found.items() if offences} == {}
