from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.cdi import ContainerEdits
from simkubelet.cdi import CdiRegistry, UnresolvableDevicesError, parse_spec
from simkubelet.cdi.registry import SpecFile
from simkubelet.node_tree import FileTree
from tests.support.decoy import Decoy


def text(devices: Sequence[str], *, value: str = "x", own: str | None = None, kind: str = "vendor.com/gpu") -> str:
    """A spec whose devices set a variable of their name to `value`; `own` is the spec's own variable."""
    document: dict[str, Any] = {
        "cdiVersion": "0.5.0",
        "kind": kind,
        "devices": [{"name": name, "containerEdits": {"env": [f"{name}={value}"]}} for name in devices],
    }
    if own is not None:
        document["containerEdits"] = {"env": [f"own={own}"]}
    return json.dumps(document)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The static and the dynamic folder, which weighs more."""
    for name in ("static", "dynamic"):
        (tmp_path / name).mkdir()
    return tmp_path / "static", tmp_path / "dynamic"


def load(folders: Sequence[Path], *others: str) -> CdiRegistry:
    return CdiRegistry.load(FileTree(folders[0].parent), [f"/{name}" for name in ("static", "dynamic", *others)])


def test_specs_of_all_folders_count_and_other_files_do_not(folders):
    (folders[0] / "a.json").write_text(text(["a"]))
    (folders[1] / "b.yaml").write_text(text(["b"]))
    (folders[1] / "c.yml").write_text(text(["c"]))
    (folders[1] / "folder.json").mkdir()

    registry = load(folders, "missing")

    assert sorted(registry.devices) == ["vendor.com/gpu=a", "vendor.com/gpu=b"]
    assert registry.problems == ()


def test_later_folder_hides_a_device_of_an_earlier_one(folders):
    (folders[0] / "z.json").write_text(text(["a", "b"], value="static"))
    (folders[1] / "a.json").write_text(text(["a"], value="dynamic"))

    registry = load(folders)

    assert registry.edits(["vendor.com/gpu=a", "vendor.com/gpu=b"]).env == ("a=dynamic", "b=static")
    assert registry.problems == ()


def test_device_that_two_files_of_a_folder_define_is_in_neither(folders):
    (folders[0] / "one.json").write_text(text(["a", "b"]))
    (folders[0] / "two.json").write_text(text(["a"]))

    registry = load(folders)

    assert list(registry.devices) == ["vendor.com/gpu=b"]
    assert registry.problems == (
        'conflicting device "vendor.com/gpu=a" (specs "/static/two.json", "/static/one.json")',
    )


def test_unusable_file_keeps_no_other_from_use(folders):
    (folders[0] / "bad.json").write_text("{}")
    (folders[0] / "binary.json").write_bytes(b"\xff")
    (folders[0] / "link.json").symlink_to("nowhere")
    (folders[0] / "good.json").write_text(text(["a"]))

    registry = load(folders)

    assert list(registry.devices) == ["vendor.com/gpu=a"]
    assert [problem.split(":")[0].rpartition("/")[2] for problem in registry.problems] == [
        "bad.json",
        "binary.json",
        "link.json",
    ]


def test_entry_that_is_no_file_keeps_no_other_from_use(folders: tuple[Path, Path], tmp_path: Path) -> None:
    decoy = Decoy(tmp_path.parent / f"{tmp_path.name}-decoy")
    (decoy.place / "s.json").write_text(text(["outside"]))
    os.mkfifo(folders[0] / "fifo.json")
    (folders[0] / "itself.json").symlink_to("itself.json")
    (folders[0] / "out.json").symlink_to(decoy.place / "s.json")
    (folders[0] / "up.json").symlink_to(f"../../{decoy.place.name}/s.json")
    (folders[0] / "good.json").write_text(text(["a"]))
    folders[1].rmdir()
    folders[1].symlink_to(decoy.place)

    registry = load(folders)

    assert list(registry.devices) == ["vendor.com/gpu=a"]
    assert [problem.partition(":")[0] for problem in registry.problems] == [
        f"/static/{name}.json" for name in ("fifo", "itself", "out", "up")
    ]


def test_specs_are_read_until_they_are_too_large_together(folders):
    for number in range(3):
        (folders[0] / f"{number}.json").write_text(text([f"d{number}"], value="x" * (4 << 20)))
    (folders[1] / "small.json").write_text(text(["small"]))

    registry = load(folders)

    assert list(registry.devices) == ["vendor.com/gpu=d0", "vendor.com/gpu=d1", "vendor.com/gpu=small"]
    (problem,) = registry.problems
    assert problem.startswith("/static/2.json: cannot be read: it is larger than ")


@pytest.mark.parametrize("content", ["a:\n" + "- b\n" * 2_000_000, f"[{'1, ' * 2_000_000}1]"], ids=["block", "flow"])
def test_spec_of_too_many_values_is_refused_early(folders, content):
    (folders[0] / "many.yaml").write_text(content)

    (problem,) = load(folders).problems

    assert problem == "/static/many.yaml: failed to unmarshal CDI Spec: more than 200000 values"


def test_spec_with_half_a_character_is_refused(folders):
    (folders[0] / "half.json").write_text(text(["a"], value="\ud800"))

    (problem,) = load(folders).problems

    assert problem.endswith("failed to unmarshal CDI Spec: found invalid Unicode character escape code")


def test_unresolvable_devices_are_all_named_in_their_order(folders):
    (folders[0] / "good.json").write_text(text(["a"]))

    with pytest.raises(UnresolvableDevicesError, match=r"^unresolvable CDI devices v/c=2, v/c=1$") as raised:
        load(folders).edits(["v/c=2", "vendor.com/gpu=a", "v/c=1"])

    assert raised.value.devices == ("v/c=2", "v/c=1")


KINDS = ("v.com/a", "v.com/b", "v.com/c")
REGISTRY = CdiRegistry(
    SpecFile(kind, 0, parse_spec(text(["d0", "d1", "d2"], value=kind, own=kind, kind=kind))) for kind in KINDS
)


@given(st.lists(st.sampled_from([f"{kind}=d{index}" for kind in KINDS for index in range(3)]), unique=True))
def test_a_specs_own_edits_stand_once_before_its_first_device(asked):
    env = REGISTRY.edits(asked).env

    assert [variable for variable in env if not variable.startswith("own=")] == [
        f"{name.partition('=')[2]}={name.partition('=')[0]}" for name in asked
    ]
    for kind in KINDS:
        of_kind = [variable for variable in env if variable.endswith(f"={kind}")]
        assert of_kind.count(f"own={kind}") == bool(of_kind)
        assert not of_kind or of_kind[0] == f"own={kind}"


some_edits = st.builds(
    ContainerEdits,
    env=st.lists(st.sampled_from(["A=1", "A=2", "B=1"])).map(tuple),
    additional_gids=st.lists(st.integers(0, 9)).map(tuple),
    intel_rdt=st.sampled_from([None, {"closID": "a"}, {"closID": "b"}]),
)


@given(some_edits, some_edits, some_edits)
def test_merging_is_associative_and_nothing_changes_nothing(one, two, three):
    assert (one + two) + three == one + (two + three)
    assert one + ContainerEdits() == one == ContainerEdits() + one
