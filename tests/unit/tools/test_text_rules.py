"""The rules on text; offences against them are assembled here so that this file keeps the rules itself."""

from __future__ import annotations

import pytest

from tools.check import text as check_text
from tools.check import words as dropped_words


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
        "tools/build/t.py",
        "tools/__pycache__/t.pyc",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert [str(path.relative_to(tmp_path)) for path in check_text.project_files(tmp_path)] == [
        ".ci/run",
        "docs/page.md",
        "tools/build/t.py",
    ]


MENDED = "men" + "ded"
ALONG = "comes " + "along"


def words(suffix, text):
    return [(line, found) for line, found, _ in dropped_words.findings(suffix, text)]


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        pytest.param(".md", f"A bug.\n\nIt is {MENDED}.\n", id="page"),
        pytest.param(".py", f'"""Bugs.\n\nThey are {MENDED}.\n"""\n', id="docstring"),
        pytest.param(".py", f'N = 1\n"""Attribute:\n{MENDED}."""\n', id="docstring of an attribute"),
        pytest.param(".py", f"\n\n# {MENDED}\n", id="comment"),
        pytest.param(".py", f'option(\n    "--x",\n    help="it is {MENDED}",\n)\n', id="help text"),
        pytest.param(".py", f'option(\n    help="it is "\n    f"{MENDED} {{x}}",\n)\n', id="help text in parts"),
        pytest.param(".py", f"\n\ndef test_{MENDED}_bug(): ...\n", id="name of a test"),
        pytest.param(".py", f'\n\npytest.param(1, id="{MENDED}")\n', id="id of a test"),
        pytest.param(".c", f"/* A file.\n *\n * It is {MENDED}. */\n", id="C comment"),
        pytest.param(".h", f"\n\nint x; // {MENDED}\n", id="C comment to the end of a line"),
        pytest.param(".yaml", f"name: x\ndescription: |\n  It is {MENDED}.\n", id="description of a story"),
        pytest.param(".yaml", f"steps:\n\n  - name: it is {MENDED}\n", id="name of a step"),
        pytest.param(".toml", f"\n\n# {MENDED}\n", id="comment of another language"),
        pytest.param("", f"Fix it\n\nIt is {MENDED}.\n", id="commit message"),
    ],
)
def test_dropped_word_in_prose_is_found(suffix, text):
    assert words(suffix, text) == [(3, MENDED)]


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        pytest.param(".md", f"```sh\necho {MENDED}\n```\n", id="block of code"),
        pytest.param(".md", f"[a page]({MENDED})\n", id="link"),
        pytest.param(".md", f"`{MENDED}` and ``{MENDED}``\n", id="code"),
        pytest.param(".md", f'The kubelet logs "it is {MENDED}".\n', id="quotation"),
        pytest.param(".py", f'raise KubeletError("it is {MENDED}")\n', id="string"),
        pytest.param(".py", f'"""The text is "it is {MENDED}"."""\n', id="quotation in a docstring"),
        pytest.param(".c", f'const char *text = "{MENDED}";\n', id="C string"),
        pytest.param(".yaml", f"message: it is {MENDED}\n", id="expected message"),
        pytest.param(".md", "Recommended, amendment, tends to; stands in for.\n", id="words that hold others"),
    ],
)
def test_code_and_quotations_keep_their_words(suffix, text):
    assert words(suffix, text) == []


def test_dropped_words_across_lines_are_found_once():
    assert words(".py", f"# It {ALONG.replace(' ', chr(10) + '# ')}.\n") == [(1, ALONG)]


def test_finding_names_the_word_to_use():
    assert [use for *_, use in dropped_words.findings(".md", MENDED)] == ["fix"]


def test_named_files_are_checked_and_reported_by_line(tmp_path, capsys):
    (tmp_path / "COMMIT_EDITMSG").write_text(f"Subject\n\nIt is {MENDED}.\n")

    assert dropped_words.main([str(tmp_path / "COMMIT_EDITMSG")]) == 1
    assert capsys.readouterr().err == f"{tmp_path}/COMMIT_EDITMSG:3: '{MENDED}': write 'fix'\n"


def test_text_without_dropped_words_passes(tmp_path):
    (tmp_path / "page.md").write_text("It is fixed.\n")

    assert dropped_words.main([str(tmp_path)]) == 0
