"""Where cgroups are made, on machines of several kinds; `tests/process` makes them on this one."""

from __future__ import annotations

from pathlib import Path

from simkubelet._internal.cgroups import Hierarchy, hierarchies

V2 = "30 25 0:26 {root} {top} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "{number} 31 0:29 {root} {top} rw,relatime - cgroup cgroup rw,{names}"


def cgroup(path: Path, **files: str) -> Path:
    """A folder as the kernel shows it; underlines stand for points."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in {"cgroup_procs": "", **files}.items():
        (path / name.replace("_", ".", 1)).write_text(f"{text}\n")
    return path


def v2(top: Path, own: str, root: str = "/") -> Hierarchy:
    [found] = hierarchies([f"0::{own}"], [V2.format(root=root, top=top)])
    return found


def test_user_session_gets_its_cgroups_beside_it_where_systemd_has_delegated(tmp_path: Path) -> None:
    passed = {"cgroup_controllers": "cpu memory pids", "cgroup_subtree_control": "cpu memory pids"}
    cgroup(tmp_path, **passed)
    slice_ = cgroup(tmp_path / "user.slice/app.slice", **passed)
    cgroup(slice_ / "shell.scope", cgroup_controllers="cpu memory pids", cgroup_subtree_control="")

    found = v2(tmp_path, "/user.slice/app.slice/shell.scope")

    assert (found.version, found.controllers) == (2, {"memory", "pids"})
    assert found.parent() == slice_


def test_machine_without_bounds_passes_its_controllers_on(tmp_path: Path) -> None:
    cgroup(tmp_path, cgroup_controllers="cpu io memory pids", cgroup_subtree_control="")

    assert v2(tmp_path, "/").parent() == tmp_path
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_container_that_sees_its_own_cgroup_as_the_top(tmp_path: Path) -> None:
    cgroup(tmp_path, cgroup_controllers="memory", cgroup_subtree_control="memory")

    assert v2(tmp_path, "/docker/abc", root="/docker/abc").own == tmp_path
    assert v2(tmp_path, "/../other").own == tmp_path


def test_other_namespace_of_cgroups_is_the_top(tmp_path: Path) -> None:
    cgroup(tmp_path, cgroup_controllers="memory", cgroup_subtree_control="memory")

    assert v2(tmp_path, "/user.slice", root="/docker/abc").own == tmp_path


def test_first_version_has_a_hierarchy_each_and_bounds_below_the_own_cgroup(tmp_path: Path) -> None:
    cgroup(tmp_path / "memory/mine")
    cgroup(tmp_path / "both")
    cgroup(tmp_path / "unified", cgroup_controllers="", cgroup_subtree_control="")
    mounts = [
        V1.format(number=33, root="/", top=tmp_path / "both", names="cpu,pids"),
        V1.format(number=34, root="/", top=tmp_path / "memory", names="memory"),
        V2.format(root="/", top=tmp_path / "unified"),
    ]

    found = hierarchies(["9:name=systemd:/", "4:memory:/mine", "3:cpu,pids:/", "0::/"], mounts)

    assert [(each.version, each.own) for each in found] == [(1, tmp_path / "memory/mine"), (1, tmp_path / "both")]
    assert [each.parent() for each in found] == [tmp_path / "memory/mine", tmp_path / "both"]


def test_nothing_is_bounded_where_nothing_bounds_memory(tmp_path: Path) -> None:
    cgroup(tmp_path, cgroup_controllers="cpu pids", cgroup_subtree_control="")

    assert hierarchies(["0::/"], [V2.format(root="/", top=tmp_path)]) == ()


def test_bounds_of_the_own_cgroup_and_of_those_above_count(tmp_path: Path) -> None:
    cgroup(tmp_path, cgroup_controllers="memory")
    cgroup(tmp_path / "job", memory_max="4096000")
    cgroup(tmp_path / "job/step", memory_max="max")

    assert list(v2(tmp_path, "/job/step").memory_bounds()) == [4096000]


def test_mount_point_with_a_space(tmp_path: Path) -> None:
    top = cgroup(tmp_path / "a b", cgroup_controllers="memory")
    [found] = hierarchies(["0::/"], [V2.format(root="/", top=str(top).replace(" ", "\\040"))])

    assert found.top == top
