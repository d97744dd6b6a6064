"""The live page of a cluster as a user sees it: it follows what happens, and its buttons send steps."""

from __future__ import annotations

from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from scenarios.trace.events import FaultInjected, PluginExited, PluginStarted
from scenarios.up.web import MOST_MESSAGES
from simkubelet.model.events import (
    DevicesAllocated,
    DevicesListed,
    EventRecorded,
    KubeletStarted,
    PluginRegistered,
    PodScheduled,
    PodStatusUpdated,
)
from tests.support.patience import LIMIT_S

from .conftest import DESK, GPU, PHONE, Live
from .test_report_page import AXE, all_of, one_of, selected, summary, texts

pytestmark = pytest.mark.slow

BEGIN = (
    KubeletStarted("node-1", "v1.34.4"),
    PluginStarted("nvidia", "node-1", 1),
    PluginRegistered("node-1", GPU, "nvidia.sock"),
    DevicesListed("node-1", GPU, ("gpu-0", "gpu-1"), ()),
    PodScheduled("trainer", "node-1"),
    DevicesAllocated("node-1", "trainer", "main", GPU, ("gpu-0",)),
    PodStatusUpdated("trainer", "Running", "", ""),
)
FAULT = (FaultInjected("node-1", "gpu-1", 79), DevicesListed("node-1", GPU, ("gpu-0",), ("gpu-1",)))


def until(browser: WebDriver, selector: str, text: str) -> None:
    """Wait until an element has a text in it."""

    def has_it(driver: Any) -> bool:
        script = "const one = document.querySelector(arguments[0]); return one ? one.textContent : ''"
        return text in driver.execute_script(script, selector)

    WebDriverWait(browser, LIMIT_S).until(has_it, f"{selector} has no '{text}'")


def opened(live: Live, *window: Any) -> WebDriver:
    live.record(*BEGIN)
    browser = live.open(*window)
    until(browser, ".detail", "trainer is Running")
    return browser


def press(browser: WebDriver, label: str) -> None:
    browser.find_element(By.CSS_SELECTOR, f"button[aria-label='{label}']").click()


def test_page_follows_what_happens(live: Live) -> None:
    browser = opened(live)
    assert one_of(browser, "#state").text == "live"
    assert texts(browser, ".label") == ["API server", "kubelet", "plugin nvidia", "GPU 0", "GPU 1", "pod trainer"]

    live.record(*FAULT)

    until(browser, ".detail", "1 healthy, 1 unhealthy")
    assert texts(browser, ".label")[:2] == ["faults", "API server"]
    assert len(browser.find_elements(By.CSS_SELECTOR, ".bar.unhealthy")) == 1
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg")) == 1


def test_chosen_message_stays_while_others_come(live: Live) -> None:
    browser = opened(live)
    one_of(browser, ".moment[tabindex='0']").click()
    browser.switch_to.active_element.send_keys(Keys.HOME)
    assert not one_of(browser, "#follow").is_selected()

    live.record(*FAULT)
    until(browser, ".list summary", "All 9 messages")

    assert selected(browser).startswith("the kubelet serves")
    assert browser.switch_to.active_element.get_attribute("aria-label") == selected(browser)

    one_of(browser, "#follow").click()
    assert selected(browser).startswith("ListAndWatch")


def test_page_keeps_the_latest_messages_only(live: Live) -> None:
    browser = opened(live)
    one_of(browser, ".list summary").click()

    live.record(*(EventRecorded("trainer", "Normal", "Pulled", f"number {n}", "kubelet") for n in range(2000)))

    until(browser, ".detail", "number 1999")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".moment")) == MOST_MESSAGES
    assert len(all_of(browser, ".list tbody tr")) == MOST_MESSAGES
    assert f"the first {2000 + len(BEGIN) - MOST_MESSAGES} messages are left out" in one_of(browser, "h2").text
    assert len(browser.find_elements(By.CSS_SELECTOR, ".bar.held")) == 1


def test_buttons_send_steps_of_stories(live: Live) -> None:
    browser = opened(live)

    # The page shows the latest answer, and several steps under way may be answered in any order.
    press(browser, "GPU: report XID")
    until(browser, "#said", "Done.")
    one_of(browser, "select[name=gpu]").send_keys("GPU 1")
    for button in ("GPU: falls off the bus", "plugin: kill", "kubelet: restart"):
        press(browser, button)
        until(browser, "#said", "Done.")

    assert sorted(live.steps, key=str) == [
        {"fail": {"node": "node-1", "gpu": 0, "xid": 79}},
        {"fail": {"node": "node-1", "lost": True, "gpu": 1, "xid": 79}},
        {"killPlugin": {"node": "node-1", "plugin": "nvidia"}},
        {"restartKubelet": {"node": "node-1"}},
    ]


def test_refused_step_shows_why(live: Live) -> None:
    browser = opened(live)
    one_of(browser, "select[name=node]").send_keys("broken")

    press(browser, "GPU: heal")

    until(browser, "#said.bad", "Not done (GPU: heal, on broken): no GPU 9; the node has 2.")


@pytest.mark.parametrize("text", ["0", "", "4294967296", "1.5"])
def test_number_that_cannot_be_is_not_sent(live: Live, text: str) -> None:
    browser = opened(live)
    field = one_of(browser, "input[name=xid]")
    field.clear()
    field.send_keys(text)

    press(browser, "GPU: report XID")

    until(browser, "#said.bad", "XID must be a whole number from 1 to 4294967295.")
    assert browser.switch_to.active_element == field
    assert live.steps == []


def test_cards_show_how_nodes_are_now(live: Live) -> None:
    browser = opened(live)
    well = ["node-1", "kubelet runs", "nvidia runs", f"{GPU}: 2 healthy, 1 in use"]
    assert one_of(browser, ".nodes .well").text.splitlines() == well

    live.record(*FAULT)

    until(browser, ".nodes .unwell", "XID 79")
    ill = [*well[:3], f"{GPU}: 1 healthy, 1 unhealthy, 1 in use", "GPU 1: XID 79"]
    assert all_of(browser, ".nodes .unwell")[0].text.splitlines() == ill


def test_lanes_of_a_node_are_together(live: Live) -> None:
    browser = opened(live)

    live.record(KubeletStarted("broken", "v1.34.4"), DevicesListed("broken", GPU, ("gpu-10", "gpu-2"), ()))

    until(browser, ".detail", "2 healthy")
    assert texts(browser, ".label") == [
        *("API server", "broken kubelet", f"broken plugin {GPU}", "broken GPU 2", "broken GPU 10"),
        *("node-1 kubelet", "node-1 plugin nvidia", "node-1 GPU 0", "node-1 GPU 1", "pod trainer"),
    ]
    assert texts(browser, ".label.first") == ["broken kubelet", "node-1 kubelet", "pod trainer"]


def test_details_are_beside_the_message_that_is_clicked(live: Live) -> None:
    browser = opened(live, DESK)
    assert all_of(browser, ".detail.beside") == []

    for moment in (all_of(browser, ".moment .end")[index] for index in (0, -1)):
        moment.click()

        detail = one_of(browser, ".detail.beside").rect
        assert detail["x"] >= 0
        assert detail["x"] + detail["width"] <= DESK
        assert 0 < detail["y"] - moment.rect["y"] < 200
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert all_of(browser, ".detail.beside") == []


def test_details_stay_below_on_a_phone(live: Live) -> None:
    browser = opened(live, PHONE)

    all_of(browser, ".moment .end")[-1].click()

    assert not one_of(browser, "#follow").is_selected()
    assert all_of(browser, ".detail.beside") == []


def test_buttons_are_reached_with_the_keyboard(live: Live) -> None:
    browser = opened(live)
    one_of(browser, "select[name=node]").send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "restart"

    browser.switch_to.active_element.send_keys(Keys.ENTER)

    until(browser, "#said.good", "Done.")


def test_text_of_a_plugin_is_no_markup(live: Live) -> None:
    browser = opened(live)

    live.record(PluginExited("nvidia", "node-1", 1, "<img src=x onerror='window.pwned = true'>"))

    until(browser, ".detail", "onerror")
    assert browser.execute_script("return window.pwned") is None


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_live_page_is_accessible(live: Live, width: int, scheme: str) -> None:
    browser = opened(live, width, scheme)
    live.record(*FAULT)
    until(browser, ".detail", "1 healthy, 1 unhealthy")
    press(browser, "kubelet: restart")
    until(browser, "#said", "Done.")

    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_script(AXE)
    found = browser.execute_async_script("axe.run().then(arguments[0])")
    assert [summary(one) for one in found["violations"]] == []
    assert "color-contrast" in {one["id"] for one in found["passes"]}
