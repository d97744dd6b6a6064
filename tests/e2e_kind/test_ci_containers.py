"""What docs/ci.md says for containers, done in containers of docker's default profile, from a clone as its readers do.

``SIMKUBELET_PYTHON_IMAGE`` names the image (`tools.build.python_image`); addresses and images of the page are replaced.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.doc_pages import copy_checkout, the_block
from tests.support.patience import PROGRAM_LIMIT_S

PAGE = "docs/ci.md"
SEATS = "resource: example.com/seat\ncount: 2\n"
PLUGIN = "#!/bin/sh\nPATH=$PWD/venv/bin:$PATH exec simkubelet plugin generic --config seats.yaml\n"
SETTINGS = ("SSL_CERT_FILE", "PIP_CERT", "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
"""What a machine without a registry may need for pip; files that they name are shown to the container."""
RESTRICTED = ("--user", "1000", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


@pytest.fixture(scope="session")
def image() -> str:
    return os.environ.get("SIMKUBELET_PYTHON_IMAGE") or pytest.skip("SIMKUBELET_PYTHON_IMAGE names no image")


class Source:
    """A repository with the checkout as its only commit, git's settings, and what pip has built of it for root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "source"
        self.cache = folder / "cache"
        self.cache.mkdir()
        self.settings = folder / "gitconfig"
        self.settings.write_text("[safe]\ndirectory = *\n")
        copy_checkout(self.folder)
        commit = "git add --all && git -c user.name=x -c user.email=x@example.com commit --quiet -m x"
        self.commit = self._git(f"git init --quiet && {commit} && git rev-parse HEAD")

    def _git(self, script: str) -> str:
        done = subprocess.run(["sh", "-c", script], cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S607
        return done.stdout.strip()


def empty(folder: Path, image: str) -> None:
    """Remove what root made in containers, which pytest's user may not."""
    emptied = ("find", "/made", "-mindepth", "1", "-delete")
    subprocess.run(["docker", "run", "--rm", "--volume", f"{folder}:/made", image, *emptied], check=True)  # noqa: S607


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory, image: str) -> Iterator[Source]:
    made = Source(tmp_path_factory.mktemp("source"))
    yield made
    empty(made.cache, image)


class Job:
    """A folder that a CI system has checked out, with a plugin, in which its commands are done."""

    def __init__(self, folder: Path, source: Source, image: str) -> None:
        self.image = image
        self.source = source
        self.folder = folder
        self.name = f"simkubelet-ci-{os.getpid()}"
        (folder / "seats.yaml").write_text(SEATS)
        (folder / "my-plugin").write_text(PLUGIN)
        (folder / "my-plugin").chmod(0o755)

    def filled(self, text: str) -> str:
        """A recipe with this repository's address, and one check of `conform`, where it names none."""
        assert "git+ADDRESS@REF" in text
        text = text.replace("git+ADDRESS@REF", f"git+file:///source@{self.source.commit}")
        return text.replace("simkubelet conform", "simkubelet conform --only registration/version")

    def options(self) -> Iterator[str]:
        """Of ``docker run``: pip reaches what it reaches here, and nothing gives rights."""
        yield from ("--name", self.name)
        yield from ("--network", "host", "--volume", f"{self.source.folder}:/source:ro")
        yield from ("--volume", f"{self.source.cache}:/cache", "--env", "PIP_CACHE_DIR=/cache")
        # Git takes no repository of another user.
        yield from ("--volume", f"{self.source.settings}:/etc/gitconfig:ro")
        for name in SETTINGS:
            if value := os.environ.get(name):
                yield from ("--env", f"{name}={value}")
                if Path(value).is_file():
                    yield from ("--volume", f"{Path(value).resolve()}:{value}:ro")

    def run(self, *command: str) -> str:
        """Run a command in the folder; returns its output, that of errors included."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PROGRAM_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def contain(self, shell: tuple[str, ...], script: str, *options: str) -> str:
        """Do a script in a container, with the folder as its working directory."""
        folder = ("--volume", f"{self.folder}:/work", "--workdir", "/work")
        return self.run("docker", "run", "--rm", *self.options(), *folder, *options, self.image, *shell, script)


@pytest.fixture
def job(tmp_path: Path, source: Source, image: str) -> Iterator[Job]:
    made = Job(tmp_path, source, image)
    yield made
    # It is there only where the test was ended meanwhile.
    subprocess.run(["docker", "rm", "--force", made.name], capture_output=True, check=False)  # noqa: S607
    empty(tmp_path, image)


def test_line_of_docker(job: Job) -> None:
    line = job.filled(the_block(PAGE, "docker run"))
    line = line.replace("python:3.13", job.image).replace("docker run", f"docker run {shlex.join(job.options())}")

    assert "1 passed" in job.run("sh", "-c", line)


def test_steps_of_github_in_a_container(job: Job) -> None:
    """A step in a container is done by sh -e where it names no shell."""
    (jobs,) = yaml.safe_load(the_block(PAGE, "name: device plugin in"))["jobs"].values()
    install, conform = (step["run"] for step in jobs["steps"] if "run" in step)

    script = job.filled(f"{install}\n{conform}")

    assert "1 passed" in job.contain(("sh", "-ec"), script)


def test_script_of_gitlab(job: Job) -> None:
    recipe: dict[str, Any] = yaml.safe_load(the_block(PAGE, "conform:"))["conform"]
    script = job.filled("\n".join(recipe["script"]))

    job.contain(("bash", "-eo", "pipefail", "-c"), script, "--env", "PLUGIN=./my-plugin")

    assert re.search("<testcase .*version", (job.folder / "results" / "junit.xml").read_text())
    assert (job.folder / "results" / "index.html").exists()


def test_commands_of_a_restricted_pod(job: Job) -> None:
    (container,) = yaml.safe_load(the_block(PAGE, "apiVersion: v1\nkind: Pod"))["spec"]["containers"]
    (home,) = container["env"]
    job.folder.chmod(0o777)

    output = job.contain(
        tuple(container["command"]),
        job.filled(container["args"][0]),
        *("--env", f"{home['name']}={home['value']}", *RESTRICTED),
    )

    assert "1 passed" in output


def test_command_of_a_dev_container(job: Job) -> None:
    command = yaml.safe_load(the_block(PAGE, '{\n  "image"'))["postCreateCommand"]

    job.contain(("sh", "-c"), f"{job.filled(command)} && simkubelet doctor")
