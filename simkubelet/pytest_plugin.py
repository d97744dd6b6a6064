"""The pytest plugin: fixtures for tests of device plugins, and ``*.story.yaml`` files as tests; see docs/pytest.md.

Only pytest is imported at load, the rest when a fixture or a story is first used. Every fixture, marker and option
begins with ``simkubelet``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fakegpu import Machine
    from scenarios.testing import story as stories

    from .testing import AsyncCluster, AsyncNode, Cluster, Node, PlayedStory, Plugin
else:
    from ._internal.bundle import LazyModule

    stories = LazyModule("scenarios", "testing.story")

_ENDINGS = (".story.yaml", ".story.yml")
_GPUS = {"profile": "h100-80gb", "count": 2}
_ASYNC = ("simkubelet_async_kubelet", "simkubelet_async_cluster")
MARKERS = (
    "simkubelet_kubelet(**node): the node of the test, with the keys of a node in a story, such as kubernetes='1.30'",
    "simkubelet_machine(profile, count, mig, seed): the fake GPUs of the test, or of its node or its cluster's nodes",
    "simkubelet_cluster(nodes=1, plugins=[...], images={...}, **node): the cluster of the test",
)
_HAPPENED = pytest.StashKey[list["Node | Cluster"]]()
"""What reports what happened in a test that fails."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings."""
    group = parser.getgroup("simkubelet", "simkubelet (tests of Kubernetes device plugins)")
    group.addoption(
        "--simkubelet-kubelet-version",
        metavar="VERSION",
        help="Kubernetes version of the nodes of stories and fixtures, such as 1.30; a test's own marker comes first.",
    )
    group.addoption(
        "--simkubelet-plugin",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="Run COMMAND in place of the plugin NAME of *.story.yaml files; may be given several times.",
    )
    parser.addini("simkubelet_kubelet_version", "As --simkubelet-kubelet-version.", default="")
    parser.addini(
        "simkubelet_plugins",
        "As --simkubelet-plugin, one a line; the path of a program is relative to the root folder.",
        type="linelist",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Announce the markers."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take stories."""
    return StoryFile.from_parent(parent, path=file_path) if file_path.name.endswith(_ENDINGS) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let all stories fail where the command line names a plugin that none has: otherwise another one would be tested.

    It is before others choose among the tests. An error here would be one inside pytest to xdist.
    """
    played = [item for item in items if isinstance(item, StoryItem)]
    known = {plugin.name for item in played for plugin in item.job.story.scenario.plugins}
    for text in config.getoption("--simkubelet-plugin"):
        name = text.partition("=")[0]
        if name not in known:
            there_are = ", ".join(sorted(known)) or "none"
            for item in played:
                item.refusal = f"--simkubelet-plugin: no story has a plugin '{name}'; there are: {there_are}"


def pytest_report_collectionfinish(items: Sequence[pytest.Item]) -> list[str]:
    """Say what does not separate containers from the machine, where those of some test run."""
    if not any(_runs_containers(item) for item in items):
        return []
    from .model.errors import HostError
    from .runtime import check_containers

    try:
        line = check_containers()
    except HostError:
        # Each of these tests says it.
        return []
    return [f"simkubelet: {line}"] if line else []


def _runs_containers(item: pytest.Item) -> bool:
    if isinstance(item, StoryItem):
        return any(node.runtime == "process" for node in item.job.story.scenario.nodes)
    markers = (mark for name in ("simkubelet_kubelet", "simkubelet_cluster") for mark in item.iter_markers(name))
    return any(mark.kwargs.get("runtime") == "process" for mark in markers)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what happened on the nodes of a test that failed."""
    report = yield
    if report.when == "call" and report.failed and call.excinfo is not None and _HAPPENED in item.stash:
        from .testing import ExpectationError

        # Its message has all that already.
        if not isinstance(call.excinfo.value, ExpectationError):
            for node in item.stash[_HAPPENED]:
                report.sections.append(("simkubelet: what happened last", node.happened))
    return report


class StoryFailedError(Exception):
    """A story has failed; the text is what there is to know about it."""


class StoryFile(pytest.File):
    """A file with a story: one test for each version on which it is played."""

    def collect(self) -> Iterable[pytest.Item]:
        """Read the story.

        Raises:
            CollectError: It is none; one line for each problem, with its place in the file.
        """
        from .model.errors import InputError

        try:
            found = stories.jobs(_shown(self.path), _plugin_commands(self.config), _version(self.config))
        except InputError as error:
            raise self.CollectError(_text_of(error)) from None
        for job in found:
            name = job.story.scenario.name + (f"[{job.kubernetes}]" if job.kubernetes else "")
            yield StoryItem.from_parent(self, name=name, job=job)


class StoryItem(pytest.Item):
    """A story on one version."""

    def __init__(self, *, job: stories.Job, **others: Any) -> None:
        super().__init__(**others)
        self.job = job
        self.refusal = ""
        """Why it is not played."""

    def runtest(self) -> None:
        """Play the story.

        Raises:
            StoryFailedError: It has failed.
            SimkubeletError: A step cannot be done.
        """
        if self.refusal:
            raise StoryFailedError(self.refusal)
        _judge([stories.play(self.job)])

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> str | Any:  # what pytest's own returns has no public type
        """Return the report of a story, which needs no traceback."""
        from .model.errors import SimkubeletError

        if isinstance(excinfo.value, StoryFailedError | SimkubeletError):
            return _text_of(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where the story is, and its name."""
        return self.path, 0, self.name


@pytest.fixture
def simkubelet_kubelet(request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node with a running kubelet, a `simkubelet.testing.Node`: apply pods, restart the kubelet, expect something."""
    from .testing import running_node

    with _one_line(), running_node(_node_keys(request)) as node:
        _show_at_failure(request, node)
        yield node


@pytest.fixture
def simkubelet_plugin(simkubelet_kubelet: Node) -> Callable[..., Plugin]:
    """Start a device plugin on that node and wait for its registration: ``simkubelet_plugin("./my-plugin", "--flag")``.

    It is `simkubelet.testing.Node.start_plugin`, and returns a `simkubelet.testing.Plugin`.
    """
    return simkubelet_kubelet.start_plugin


@pytest.fixture
def simkubelet_machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Fake NVIDIA GPUs, a `fakegpu.Machine`, two H100 by default: of the test's node, or of node-1 of its cluster."""
    from .testing import running_machine

    names = set(request.fixturenames)
    if wrong := names.intersection(_ASYNC):
        pytest.fail(f"simkubelet_machine: leave it out beside {wrong.pop()}, and use its 'machine'", pytrace=False)
    if "simkubelet_kubelet" in names:
        yield request.getfixturevalue("simkubelet_kubelet").machine
    elif "simkubelet_cluster" in names:
        yield request.getfixturevalue("simkubelet_cluster").machine("node-1")
    else:
        with _one_line(), running_machine(_gpus(request) or _GPUS) as machine:
            yield machine


@pytest.fixture
def simkubelet_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster as of ``simkubelet up``, a `simkubelet.testing.Cluster`: for kubectl and client libraries."""
    from .testing import running_cluster

    with _one_line(), running_cluster(**_cluster_keys(request)) as cluster:
        _show_at_failure(request, cluster)
        yield cluster


@pytest.fixture
def simkubelet_async_kubelet(request: pytest.FixtureRequest) -> AsyncNode:
    """A `simkubelet.testing.AsyncNode` for a coroutine: ``async with simkubelet_async_kubelet as kubelet``."""
    from .testing import AsyncNode

    with _one_line():
        return AsyncNode(_node_keys(request))


@pytest.fixture
def simkubelet_async_cluster(request: pytest.FixtureRequest) -> AsyncCluster:
    """A `simkubelet.testing.AsyncCluster` for a coroutine: ``async with simkubelet_async_cluster as cluster``."""
    from .testing import AsyncCluster

    with _one_line():
        return AsyncCluster(**_cluster_keys(request))


@pytest.fixture
def simkubelet_story(request: pytest.FixtureRequest) -> Callable[..., Sequence[PlayedStory]]:
    """Play a story, and fail the test with its report: ``simkubelet_story("seats.yaml", plugin=["./my-plugin"])``.

    A name without ``.yaml`` is that of a built-in story. The result has a `simkubelet.testing.PlayedStory` for each
    Kubernetes version.
    """

    def play(
        file: str | os.PathLike[str],
        plugin: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        kubernetes: str | None = None,
    ) -> Sequence[PlayedStory]:
        """Play a story on each version that it names.

        Args:
            file: Its file, relative to that of the test; or the name of a bundled story.
            plugin: What to run in place of the story's plugin: a command, or name -> command where it has several.
            kubernetes: The version to play it on instead.

        Returns:
            What happened, for each version.
        """
        __tracebackhide__ = True
        with _one_line():
            path = _shown(stories.find_file(file, request.path.parent))
            version = kubernetes or _version(request.config)
            played = [stories.play(job) for job in stories.jobs(path, stories.replacements(path, plugin), version)]
        try:
            _judge(played)
        except StoryFailedError as failed:
            raise pytest.fail.Exception(_text_of(failed), pytrace=False) from None
        return played

    return play


def _judge(played: Sequence[PlayedStory]) -> None:
    """Report how stories went: those that were played, or why none was.

    Raises:
        StoryFailedError: One has failed.
    """
    if failed := [one.report for one in played if not (one.has_passed or one.is_skipped)]:
        raise StoryFailedError("\n\n".join(failed))
    if all(one.is_skipped for one in played):
        pytest.skip(played[0].report)


@contextmanager
def _one_line() -> Iterator[None]:
    """Let what a user, a plugin or the machine did wrong end the test with its text alone."""
    from .model.errors import SimkubeletError

    try:
        yield
    except SimkubeletError as error:
        raise pytest.fail.Exception(_text_of(error), pytrace=False) from None


def _text_of(error: BaseException) -> str:
    """What an error says, without what a terminal or a CI system would obey of it."""
    from ._internal.output import printable

    return printable("\n".join(getattr(error, "lines", (str(error),))))


def _show_at_failure(request: pytest.FixtureRequest, node: Node | Cluster) -> None:
    request.node.stash.setdefault(_HAPPENED, []).append(node)


def _shown(path: Path) -> Path:
    """A path as errors show it."""
    return Path(os.path.relpath(path))


def _plugin_commands(config: pytest.Config) -> Mapping[str, tuple[str, ...]]:
    read = stories.plugin_commands
    options: list[str] = config.getoption("--simkubelet-plugin")
    return {**read(config.getini("simkubelet_plugins"), config.rootpath), **read(options, config.invocation_params.dir)}


def _version(config: pytest.Config) -> str | None:
    return config.getoption("--simkubelet-kubelet-version") or config.getini("simkubelet_kubelet_version") or None


def _marked(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    """The keys that the markers of a name give; those of the nearest one come first."""
    keys: dict[str, Any] = {}
    for marker in request.node.iter_markers(name):
        if marker.args:
            pytest.fail(f"@pytest.mark.{name} takes keys only, such as {name}(kubernetes='1.30')", pytrace=False)
        keys = {**marker.kwargs, **keys}
    return keys


def _gpus(request: pytest.FixtureRequest) -> dict[str, Any]:
    marked = _marked(request, "simkubelet_machine")
    return {**_GPUS, **marked} if marked or "simkubelet_machine" in request.fixturenames else {}


def _node_keys(request: pytest.FixtureRequest) -> dict[str, Any]:
    version, gpus = _version(request.config), _gpus(request)
    keys = {"kubernetes": version} if version else {}
    return {**keys, **({"gpus": gpus} if gpus else {}), **_marked(request, "simkubelet_kubelet")}


def _cluster_keys(request: pytest.FixtureRequest) -> dict[str, Any]:
    version, gpus = _version(request.config), _gpus(request)
    keys = {"kubernetes": version} if version else {}
    return {**keys, **({"gpus": gpus} if gpus else {}), **_marked(request, "simkubelet_cluster")}
