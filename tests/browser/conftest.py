"""A report and a live page in headless Chromium, driven by selenium.

The session `browser` names the browser and its driver in the environment; without it, what is on the PATH is used, and
the tests are skipped where nothing is. The report is made from recordings that are made here: no story is played.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

from scenarios.evaluation.mismatch import Mismatch
from scenarios.evaluation.verdict import Failure, Outcome, Verdict
from scenarios.play.comparison import compare
from scenarios.play.normal_form import Line
from scenarios.report.page import Reported, write_report
from scenarios.story.specs import GpuSpec, NodeSpec, PluginSpec
from scenarios.trace.events import ExpectationFailed, ExpectationMet, FaultInjected, PluginStarted, StepStarted
from scenarios.trace.trace import Broadcast, Entry, Event
from scenarios.up.buttons import live_page
from scenarios.up.cards import Shown
from scenarios.up.web import LivePage
from simkubelet.model.errors import InputError
from simkubelet.model.events import (
    DevicesAllocated,
    DevicesListed,
    KubeletStarted,
    NodeStatusUpdated,
    PluginRegistered,
    PodScheduled,
    PodStatusUpdated,
)

GPU = "example.com/gpu"
IDS = tuple(f"gpu-{number}" for number in range(4))
EVIL = "</script><script>window.pwned = true</script><img src=x onerror='window.pwned = true'>"
PHONE, DESK = 400, 1280

Open = Callable[..., WebDriver]


def entries(*timed: tuple[float, float, Event]) -> tuple[Entry, ...]:
    return tuple(Entry(seq, node_s, event, real_s) for seq, (node_s, real_s, event) in enumerate(timed))


def recording(last: Event) -> tuple[Entry, ...]:
    return entries(
        (0, 0.1, KubeletStarted("node-1", "v1.34.4")),
        (0, 0.1, StepStarted(1, "expect node node-1")),
        (0, 0.2, PluginStarted("mine", "node-1", 1)),
        (0, 0.5, PluginRegistered("node-1", GPU, "mine.sock")),
        (0, 0.5, DevicesListed("node-1", GPU, IDS, ())),
        (10, 0.6, NodeStatusUpdated("node-1", {GPU: 4}, {GPU: 4})),
        (10, 0.6, ExpectationMet(1)),
        (10, 0.6, PodScheduled("trainer", "node-1")),
        (10, 0.6, DevicesAllocated("node-1", "trainer", "main", GPU, IDS[:2], {"envs": {"GPUS": "0,1"}})),
        (10, 0.7, PodStatusUpdated("trainer", "Running", "", "")),
        (10, 0.7, StepStarted(2, "gpu-0 falls off the bus")),
        (10, 0.7, FaultInjected("node-1", "gpu-0", 79)),
        (310, 0.8, DevicesListed("node-1", GPU, IDS[1:], IDS[:1])),
        (310, 0.9, last),
    )


def stories() -> list[Reported]:
    """A story of each kind, and enough others that a page is long."""
    passed = Verdict("passes", Outcome.VALID, 0.4)
    mismatch = Mismatch(("steps", 1, "expect", "capacity", GPU), "4", "3")
    failure = Failure("stories/fails.yaml:31", "the GPU falls off", (mismatch,), (), "waited 9.10 s (within: 3s)", 2, 2)
    failed = replace(passed, scenario="fails", outcome=Outcome.INVALID, reason="expected 4; actual 3", failure=failure)
    log = Path("/tmp/sk-1/node-1/logs/plugins/mine.log")
    failed = replace(failed, logs=(log,), log_ends={log: ("registered", "lost gpu-0 " * 40)}, repeat="simkubelet run x")
    running, pending = Line("pod-status phase=Running", 0), Line("pod-status phase=Pending", 0)
    divergence = compare({"pod trainer": (running,)}, {"pod trainer": (pending,)}, ("sim", "kind"))
    assert divergence is not None
    differs = replace(passed, scenario="differs", outcome=Outcome.INVALID, reason="x", difference=divergence.lines)
    skipped = replace(passed, scenario="skipped", outcome=Outcome.SKIPPED, reason="this machine has no bwrap")
    evil = replace(passed, scenario="evil", outcome=Outcome.UNKNOWN, reason=EVIL)
    good, bad = recording(ExpectationMet(2)), recording(ExpectationFailed(2, ("capacity: expected 4; actual 3",)))
    return [
        Reported(failed, "A GPU fails", {"sim": bad}, ("let the plugin register again",)),
        Reported(differs, "Two worlds", {"sim": good, "kind": good[:9]}),
        Reported(skipped, "Containers as processes", {}),
        Reported(evil, EVIL, {"sim": recording(StepStarted(3, EVIL))}),
        *(Reported(replace(passed, scenario=f"passes-{n}"), "Nothing fails", {"sim": good}) for n in range(30)),
    ]


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("report"), stories(), 12.5)


@pytest.fixture(scope="session")
def browser_and_driver() -> tuple[str, str]:
    browser = os.environ.get("SIMKUBELET_CHROMIUM") or shutil.which("chromium")
    driver = os.environ.get("SIMKUBELET_CHROMEDRIVER") or shutil.which("chromedriver")
    if not (browser and driver):
        pytest.skip("no Chromium: the session `browser` installs it (Debian: apt-get install chromium chromium-driver)")
    return browser, driver


@pytest.fixture(scope="session")
def chromium(browser_and_driver: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    browser, driver = browser_and_driver
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    profile = tmp_path_factory.mktemp("profile")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver)) as chrome:
        yield chrome


@pytest.fixture
def open_page(chromium: WebDriver, page: Path) -> Iterator[Open]:
    """Opens the report on a screen of a width and in a colour scheme, with a story open where it is named."""

    def show(width: int = DESK, scheme: str = "light", story: str = "") -> WebDriver:
        return shown(chromium, page.as_uri() + (f"#{story}" if story else ""), width, scheme)

    yield show
    assert chromium.get_log("browser") == []  # type: ignore[no-untyped-call]


def shown(chromium: WebDriver, address: str, width: int, scheme: str) -> WebDriver:
    """The browser with a page on a screen of a width and in a colour scheme."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    chromium.get("about:blank")
    chromium.get(address)
    return chromium


@dataclass
class Live:
    """The live page of a cluster that the test makes up.

    Attributes:
        open: Opens it on a screen of a width and in a colour scheme.
        record: Lets events happen in the cluster.
        steps: Those that the page sent; a step with the node ``broken`` is refused.
    """

    open: Open
    record: Callable[..., None]
    steps: list[object]


@pytest.fixture
def live(chromium: WebDriver) -> Iterator[Live]:
    steps: list[object] = []

    async def perform(step: object) -> str:
        steps.append(step)
        if "broken" in json.dumps(step):
            raise InputError("no GPU 9; the node has 2")
        return "done"

    nodes = tuple(NodeSpec(name=name, gpus=GpuSpec(profile="t4", count=2)) for name in ("node-1", "broken"))
    plugins = [PluginSpec(name="nvidia", builtin="nvidia")]
    known = Shown([node.name for node in nodes], ["nvidia"], lambda node, device: device.replace("gpu-", "GPU "))
    page = LivePage("cluster 'test'", live_page("cluster 'test'", nodes, plugins), perform, known)
    record = Broadcast()
    record.follow(page.take)
    with asyncio.Runner() as runner:
        loop, serving = runner.get_loop(), page.serving(0)
        address = runner.run(serving.__aenter__())
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        def happen(*events: Event) -> None:
            for event in events:
                loop.call_soon_threadsafe(record.append, event)

        def show(width: int = DESK, scheme: str = "light") -> WebDriver:
            return shown(chromium, address, width, scheme)

        try:
            yield Live(show, happen, steps)
            chromium.get("about:blank")
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            runner.run(serving.__aexit__(None, None, None))
    chromium.get_log("browser")  # type: ignore[no-untyped-call]
