"""What the oracle is built from for each Kubernetes minor, and what happens where it cannot be built."""

from __future__ import annotations

import pytest

from tools.build import oracle as build_oracle
from tools.build import pins


def test_the_usual_minor_needs_no_tags():
    assert build_oracle.tags("1.34") == ""
    assert build_oracle.oracle("1.34").flags == ()


def test_older_minor_gets_the_tags_of_later_changes():
    assert build_oracle.tags("1.31") == "before1_32,before1_33,before1_34"


def test_a_newer_minor_stands_after_the_changes_up_to_it():
    assert build_oracle.tags("1.36") == "since1_35,since1_36"


@pytest.mark.parametrize("minor", build_oracle.PINS.minors())
def test_every_minor_is_pinned_to_one_patch_of_its_own(minor):
    assert build_oracle.PINS.version(minor).startswith(f"v{minor}.")
    assert "./staging" not in build_oracle.PINS.modfile(minor).read_text()
    assert build_oracle.PINS.modfile(minor).with_suffix(".sum").exists()


def test_the_stub_is_the_same_for_all_minors():
    assert build_oracle.stub().modfile == build_oracle.MODULE / "go.mod"
    assert build_oracle.scheduler().modfile == build_oracle.MODULE / "go.mod"


@pytest.mark.parametrize(("minor", "expected"), [("1.28", "go.mod"), ("1.29", "versions/1.29.mod")])
def test_manager_before_1_29_is_the_usual_one_and_the_rules_are_its_own(minor, expected):
    assert build_oracle.oracle(minor).modfile == build_oracle.MODULE / expected
    assert build_oracle.registry(minor).modfile == build_oracle.MODULE / "versions" / f"{minor}.mod"


def test_an_unknown_minor_is_refused_with_those_there_are(capsys):
    assert build_oracle.main(["--kubernetes", "1.5"]) == 3
    told = capsys.readouterr().err
    assert told.startswith("error: no pins for Kubernetes 1.5: choose one of 1.26, ")
    assert told.count("\n") == 1


def test_without_go_one_line_and_exit_3(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert build_oracle.main([]) == 3
    assert capsys.readouterr().err == "error: no `go` on the PATH: install Go 1.26 or newer to build the oracle\n"


@pytest.mark.parametrize(
    ("condition", "tags", "expected"),
    [
        pytest.param("", set(), True, id="no condition"),
        pytest.param("//go:build since1_36", set(), False, id="for newer ones"),
        pytest.param("//go:build since1_36", {"since1_35", "since1_36"}, True, id="for this one"),
        pytest.param("//go:build !before1_31 && !since1_37", set(), True, id="between two changes"),
        pytest.param("//go:build !before1_31 && !since1_37", {"since1_37"}, False, id="after the second change"),
    ],
)
def test_pins_come_from_the_files_of_one_version(condition, tags, expected):
    assert pins.fits(f"{condition}\n\npackage main\n", tags) is expected


def test_pins_replace_each_staging_module_by_the_published_one():
    staging = "".join(f"\tk8s.io/{name} => ./staging/src/k8s.io/{name}\n" for name in ("api", "kms"))
    kubernetes = f"go 1.22.0\n\nreplace (\n{staging})\n"

    written = pins.new_pins("oracle", "1.31.14", kubernetes, {"k8s.io/kms": "v0.31.0"})

    assert written.startswith("module simkubelet/oracle\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v1.31.14\n")
    assert "\tk8s.io/api => k8s.io/api v0.31.14\n" in written
    assert "\tk8s.io/kms => k8s.io/kms v0.31.0\n" in written


def test_pins_keep_kubernetes_own_defaults_of_godebug():
    written = pins.new_pins("control_plane", "1.34.4", "go 1.24.0\n\ngodebug default=go1.24\n", {})

    assert written.startswith("module simkubelet/control_plane\n\ngo 1.24.0\n\ngodebug default=go1.24\n\nrequire ")
