"""The project's checks: `./dev test` runs the default sessions, `./dev test -l` lists all."""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent / "tools"))
import build_inputs
import build_nvidia_plugin

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_existing_virtualenvs = True

PYPROJECT = nox.project.load_toml("pyproject.toml")
IN_PARALLEL = ("--numprocesses", "auto")
TOP_LEVEL_NAMES = {"fakegpu", "simkubelet"}


def install(session: nox.Session, *requirements: str) -> None:
    """Install what a session needs, unless its kept environment was given just this before."""
    noted = Path(session.virtualenv.location, "installed-inputs")
    wanted = "\n".join((build_inputs.digest(), *requirements))
    if not noted.exists() or noted.read_text() != wanted:
        # Warnings of the C compiler end a build here, never a user's.
        session.install(*requirements, env={"CMAKE_ARGS": "-DFAKEGPU_WERROR=ON"})
        noted.write_text(wanted)


def groups(*names: str) -> tuple[str, ...]:
    """Return the requirements of pyproject.toml's dependency groups."""
    return nox.project.dependency_groups(PYPROJECT, *names)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format, layers, machine-bound text, and that the committed stubs are fresh."""
    install(session, *groups("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")
    session.run("python", "tools/check_text.py")
    session.notify("protos", ["--check"])


@nox.session
def types(session: nox.Session) -> None:
    """Run mypy --strict over the packages, the tools, the benchmarks and what tests share."""
    install(session, *PYPROJECT["project"]["dependencies"], *groups("types"))
    session.run("mypy")
    session.run("mypy", "tools", "bench")
    session.run("mypy", "--explicit-package-bases", "tests/support")


@nox.session
def unit(session: nox.Session) -> None:
    """Run the unit tests; arguments after `--` go to pytest."""
    # The fake library is compared with the nvml.h that it was built from, which is a build requirement.
    install(session, "--editable", ".", *groups("test"), *PYPROJECT["build-system"]["requires"])
    session.run("pytest", "tests/unit", *IN_PARALLEL, *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """Play every story over real sockets with the project's own plugins."""
    install(session, "--editable", ".", *groups("test"))
    session.run("pytest", "tests/e2e", "-m", "not nvidia_go", *IN_PARALLEL, *session.posargs)


@nox.session
def nvidia(session: nox.Session) -> None:
    """Play the stories with NVIDIA's own plugin, built from source with Go."""
    try:
        build_nvidia_plugin.find_go()
    except build_nvidia_plugin.BuildError as reason:
        session.skip(str(reason))
    install(session, "--editable", ".", *groups("test"))
    binary = session.run("python", "tools/build_nvidia_plugin.py", silent=True)
    session.env["SIMKUBELET_NVIDIA_PLUGIN"] = str(binary).strip()
    session.run("pytest", "tests/e2e", "-m", "nvidia_go", *IN_PARALLEL, *session.posargs)


@nox.session(reuse_venv=False)
def wheel(session: nox.Session) -> None:
    """Install the built wheel into a fresh environment, away from the checkout, and use it."""
    with tempfile.TemporaryDirectory() as away:
        session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", away, ".")
        (built,) = Path(away).glob("*.whl")
        claimed = {name.partition("/")[0] for name in zipfile.ZipFile(built).namelist() if ".dist-info/" not in name}
        if claimed != TOP_LEVEL_NAMES:
            session.error(f"{built.name} claims the names {sorted(claimed)}, not {sorted(TOP_LEVEL_NAMES)}")
        session.install(str(built))
        with session.chdir(away):
            session.run("fakegpu", "profiles")
            session.run("simkubelet", "list")
            session.run("simkubelet", "run", "gopher-pending")


@nox.session(default=False)
def protos(session: nox.Session) -> None:
    """Write the kubelet's message stubs anew; with `-- --check` only compare."""
    install(session, *groups("protos"))
    session.run("python", "tools/generate_protos.py", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure and print JSON lines; arguments after `--` choose the benchmarks."""
    install(session, "--editable", ".", *groups("test"))
    session.run("python", "-m", "bench", *session.posargs)
