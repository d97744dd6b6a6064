"""The rules on text that works on one machine only; offences are put together here so that this file keeps them."""

from __future__ import annotations

import pytest

from tools.check import text as check_text


def found(text):
    return [complaint for _, _, complaint in check_text.findings(text)]


@pytest.mark.parametrize("host", ["pypi." + "org", "files.pythonhosted." + "org", "proxy.golang." + "org"])
def test_registry_host_is_found(host):
    assert found(f"index-url = https://{host}/simple") == ["names a registry's host"]


@pytest.mark.parametrize("folder", ["/ro" + "ot/", "/ho" + "me/ada/", "/wo" + "rk/"])
def test_path_of_one_machine_is_found(folder):
    assert found(f'cache = "{folder}cache"') == ["is a path of one machine"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("node-1/root/etc/gophers", id="folder below another"),
        pytest.param("https://kubernetes.io/docs/", id="ordinary web page"),
        pytest.param("/var/lib/kubelet/device-plugins", id="path of every node"),
        pytest.param("import homework/model", id="word that holds another"),
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert found(text) == []


def test_offence_is_reported_with_its_line():
    text = "first\nsecond = '/ro" + "ot/x'\n"

    assert [number for number, _, _ in check_text.findings(text)] == [2]


def test_environments_caches_and_build_results_are_not_read(tmp_path):
    for name in (
        ".ci/run",
        "docs/page.md",
        ".venv/pyvenv.cfg",
        ".hypothesis/x",
        "build/a.log",
        "tools/__pycache__/t.pyc",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert [str(path.relative_to(tmp_path)) for path in check_text.project_files(tmp_path)] == [
        ".ci/run",
        "docs/page.md",
    ]
