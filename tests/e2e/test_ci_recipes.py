"""The GitHub Action and the GitLab job of docs/ci.md: they fit their schemas, and their commands do what they say.

No runner is here: the steps of the action that are commands are done as a runner does, with the inputs in the
environment; those that are actions of others are not.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner
from markdown_it import MarkdownIt

from tests.support.doc_pages import ROOT, the_block
from tests.support.obeyed import WORKFLOW_COMMAND, is_harmless
from tests.support.patience import PROGRAM_LIMIT_S

ACTION = ROOT / "action.yml"
PAGE = "docs/ci.md"
SEATS = "resource: example.com/seat\ncount: 2\n"
PLUGIN = "simkubelet plugin generic --config 'my seats.yaml'"


def shell(folder: Path, script: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub's and GitLab's runners run bash; ``sudo`` does nothing."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "sudo").write_text("#!/bin/sh\n")
    (tools / "sudo").chmod(0o755)
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],  # noqa: S607
        cwd=folder,
        env={**os.environ, "PATH": path, "TMPDIR": str(folder), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
        check=False,
    )


class Runner:
    """Does the steps of the action that are commands, in a folder that a job has checked out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
        self.summary = folder / "summary.md"

    def __call__(self, **given: str) -> subprocess.CompletedProcess[str]:
        inputs = {name: about.get("default", "") for name, about in self.action["inputs"].items()} | given
        done = None
        for step in self.action["runs"]["steps"]:
            if "run" in step:
                variables = {name: _filled(value, inputs) for name, value in step.get("env", {}).items()}
                done = shell(self.folder, step["run"], {**self._usual, **variables})
                if done.returncode:
                    break
        assert done is not None
        return done

    @property
    def _usual(self) -> dict[str, str]:
        return {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(self.summary)}


def _filled(value: str, inputs: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], value)


@pytest.fixture
def job(run: Any) -> Runner:
    (run.scratch / "my seats.yaml").write_text(SEATS)
    return Runner(run.scratch)


def verdicts(path: Path) -> dict[str | None, list[str]]:
    suite = ElementTree.parse(path).getroot()  # noqa: S314  # our own output
    return {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}


def test_action_checks_a_plugin_and_writes_what_is_uploaded(job: Runner) -> None:
    only = "registration/version\npre-start/again\noptions/answered\n"

    done = job(command=PLUGIN, only=only, skip="options/*", results="my results", package="simkubelet")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert verdicts(job.folder / "my results" / "junit.xml") == {"version": [], "again": ["skipped"]}
    assert (job.folder / "my results" / "index.html").stat().st_size > 0
    assert job.summary.read_text().startswith("\n    example.com/seat: 2 devices; options: none\n")
    (upload,) = [step for step in job.action["runs"]["steps"] if "upload-artifact" in step.get("uses", "")]
    assert upload["with"]["path"] == "${{ inputs.results }}"


def test_action_fails_with_a_plugin_that_fails(job: Runner) -> None:
    (job.folder / "claims.yaml").write_text("break: {createFile: {path: /etc/broken}}\nwait: 3s\n")

    done = job(command=PLUGIN, profile="claims.yaml", only="health/reported", package="simkubelet")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED health/reported" in job.summary.read_text()
    assert verdicts(job.folder / "simkubelet-results" / "junit.xml") == {"reported": ["failure"]}


def test_plugin_cannot_write_markdown_or_commands(job: Runner) -> None:
    said = r"```\n<b>bold</b>\r\n::error::x\r##[error]x\e[2J"
    (job.folder / "broken").write_text(f"#!/bin/sh\nprintf '{said}' >&2\nexit 4\n")
    (job.folder / "broken").chmod(0o755)

    done = job(command="./broken", package="simkubelet")

    assert done.returncode == 1, done.stdout + done.stderr
    assert [token.type for token in MarkdownIt().parse(job.summary.read_text())] == ["code_block"]
    assert "error::x" in done.stdout
    assert not WORKFLOW_COMMAND.search(done.stdout)
    assert is_harmless(done.stdout)


def test_job_of_gitlab_checks_a_plugin(job: Runner) -> None:
    recipe = yaml.safe_load(the_block(PAGE, "conform:"))["conform"]
    install, *commands = recipe["script"]
    (job.folder / "seats.yaml").write_text(SEATS)

    script = "\n".join(commands).replace("simkubelet conform", "simkubelet conform --only registration/version")
    done = shell(job.folder, script, {"PLUGIN": "simkubelet plugin generic --config seats.yaml"})

    assert done.returncode == 0, done.stdout + done.stderr
    assert install.startswith("pip install ")
    assert recipe["artifacts"]["paths"] == ["results/"]
    assert verdicts(job.folder / recipe["artifacts"]["reports"]["junit"]) == {"version": []}
    assert (job.folder / "results" / "index.html").exists()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        pytest.param("vendor.github-actions", ACTION.read_text(), id="action"),
        pytest.param("vendor.github-workflows", the_block(PAGE, "name: device plugin\n"), id="workflow"),
        pytest.param(
            "vendor.github-workflows", the_block(PAGE, "name: device plugin in"), id="workflow in a container"
        ),
        pytest.param("vendor.gitlab-ci", the_block(PAGE, "conform:"), id="gitlab"),
    ],
)
def test_recipe_fits_the_schema_of_its_system(schema: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yml").write_text(text)

    result = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, str(tmp_path / "recipe.yml")])

    assert result.exit_code == 0, result.output


def test_pod_fits_the_restricted_standard() -> None:
    """Source: Pod Security Standards, profile "restricted"."""
    spec = yaml.safe_load(the_block(PAGE, "apiVersion: v1\nkind: Pod"))["spec"]
    (container,) = spec["containers"]

    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]) == (True, 1000)
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert [volume.keys() - {"name"} for volume in spec["volumes"]] == [{"emptyDir"}]
    assert container["args"][0].splitlines()[-1] == "venv/bin/simkubelet conform -- ./my-plugin"


def test_dev_container_asks_for_no_rights() -> None:
    assert json.loads(the_block(PAGE, '{\n  "image"')).keys() == {"image", "postCreateCommand"}


def test_page_has_a_row_for_each_input() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "ci.md").read_text(), re.MULTILINE)
    inputs = yaml.safe_load(ACTION.read_text())["inputs"]

    assert [name for row in rows for name in re.findall(r"`([\w-]+)`", row)] == list(inputs)
