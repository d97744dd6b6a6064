"""The page of a report as a reader uses it: with a mouse, with a keyboard, on a phone, in the dark, on paper."""

from __future__ import annotations

import base64
from importlib import resources
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.patience import LIMIT_S

from .conftest import DESK, PHONE, Open

pytestmark = pytest.mark.slow
AXE = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")


def all_of(browser: WebDriver | WebElement, selector: str) -> list[WebElement]:
    return [one for one in browser.find_elements(By.CSS_SELECTOR, selector) if one.is_displayed()]


def texts(browser: WebDriver | WebElement, selector: str) -> list[str]:
    return [one.text for one in all_of(browser, selector)]


def one_of(browser: WebDriver | WebElement, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def open_list(browser: WebDriver) -> None:
    """Open the list of messages, which the page fills after the click has returned."""
    one_of(browser, ".list summary").click()
    WebDriverWait(browser, LIMIT_S).until(lambda _: all_of(browser, ".list tbody tr"), "the list stays empty")


def selected(browser: WebDriver) -> str:
    return str(one_of(browser, ".moment[aria-selected=true]").get_attribute("aria-label"))


def test_search_and_verdicts_choose_the_stories(open_page: Open) -> None:
    browser = open_page()
    assert one_of(browser, "#count").text == "34 of 34 shown"

    one_of(browser, "#search").send_keys("passes 7")
    assert texts(browser, ".name button") == ["passes-7", "passes-17", "passes-27"]

    one_of(browser, "#search").clear()
    one_of(browser, "#search").send_keys("e")
    one_of(browser, "input[value=PASSED]").click()
    assert texts(browser, ".name button") == ["fails", "differs", "skipped", "evil"]

    one_of(browser, "#search").send_keys("no such story")
    assert texts(browser, "#none") == ["No story matches the filters."]


def test_story_is_drawn_when_it_is_opened(open_page: Open) -> None:
    browser = open_page()
    assert all_of(browser, "svg") == []
    button = one_of(browser, ".name button")

    button.send_keys(Keys.ENTER)

    assert button.get_attribute("aria-expanded") == "true"
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg .moment")) == 14
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg")) == 1

    button.send_keys(Keys.ENTER)
    assert all_of(browser, "svg") == []


def test_failure_stands_above_its_timeline_and_is_selected(open_page: Open) -> None:
    browser = open_page(story="fails")

    failure = one_of(browser, ".failure").text
    for expected in ("stories/fails.yaml:31", "steps[1].expect.capacity[example.com/gpu]", "waited 9.10 s"):
        assert expected in failure
    assert texts(browser, ".notes li") == ["let the plugin register again"]
    assert selected(browser).startswith("step 2: the expectation is not met")


def test_link_of_a_row_opens_how_to_fix_it(open_page: Open) -> None:
    browser = open_page()

    (link,) = all_of(browser, ".what a")
    link.click()

    assert texts(browser, ".notes li") == ["let the plugin register again"]


def test_lanes_have_names(open_page: Open) -> None:
    browser = open_page(story="passes-0")

    assert texts(browser, ".label") == [
        *("story", "faults", "API server", "kubelet", "plugin mine"),
        *("gpu-0", "gpu-1", "gpu-2", "gpu-3", "pod trainer"),
    ]


def test_arrow_keys_move_between_messages(open_page: Open) -> None:
    browser = open_page(story="passes-0")
    one_of(browser, ".moment[tabindex='0']").click()

    def press(key: str) -> str:
        browser.switch_to.active_element.send_keys(key)
        assert browser.switch_to.active_element.get_attribute("aria-label") == selected(browser)
        return selected(browser)

    assert press(Keys.HOME).startswith("the kubelet serves")
    assert press(Keys.ARROW_LEFT).startswith("the kubelet serves")
    assert press(Keys.ARROW_RIGHT).startswith("step 1")
    assert press(Keys.END).startswith("step 2: the expectation is met")
    assert len(all_of(browser, ".moment[tabindex='0']")) == 1


def test_click_on_a_message_shows_its_fields(open_page: Open) -> None:
    browser = open_page(story="passes-0")

    browser.find_elements(By.CSS_SELECTOR, ".moment")[8].click()

    detail = one_of(browser, ".detail").text
    for expected in (
        "2 devices of example.com/gpu",
        "kubelet on node-1 → pod trainer",
        "10 s node time, 0.6 s real time",
    ):
        assert expected in detail
    assert dict(zip(texts(browser, "dt"), texts(browser, "dd"), strict=True))["response.envs.GPUS"] == "0,1"


def test_clock_is_node_time_or_real_time(open_page: Open) -> None:
    browser = open_page(story="passes-0")

    def gap() -> float:
        places = [float(str(one.get_attribute("x"))) for one in browser.find_elements(By.CSS_SELECTOR, ".target")]
        return (places[12] - places[11]) / (places[3] - places[2])

    assert "5:10 min" in texts(browser, "text.tick")
    of_node_time = gap()

    one_of(browser, "input[value=real]").click()

    ticks = texts(browser, "text.tick")
    assert "5:10 min" not in ticks
    assert ticks[0] == "0.1 s"
    assert gap() < of_node_time


def test_two_backends_are_side_by_side_with_their_differences(open_page: Open) -> None:
    def places(width: int) -> tuple[dict[str, int], dict[str, int]]:
        first, second = all_of(open_page(width, story="differs"), ".recording")
        return first.location, second.location

    first, second = places(DESK)
    assert (first["y"], first["x"] < second["x"]) == (second["y"], True)
    first, second = places(PHONE)
    assert (first["x"], first["y"] < second["y"]) == (second["x"], True)

    browser = open_page(story="differs")
    assert texts(browser, ".differences .differs td") == ["pod-status phase=Running", "pod-status phase=Pending"]
    assert texts(browser, ".label.differs") == ["pod trainer", "pod trainer"]


@pytest.mark.parametrize("story", ["", "fails", "differs", "evil"])
def test_nothing_is_wider_than_a_phone(open_page: Open, story: str) -> None:
    browser = open_page(PHONE, story=story)

    assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE


def test_messages_are_there_as_text(open_page: Open) -> None:
    browser = open_page(story="passes-0")

    open_list(browser)

    rows = texts(browser, ".list tbody tr")
    assert len(rows) == 14
    expected = "3 0 s 0.5 s plugin mine on node-1 → kubelet on node-1 Register example.com/gpu at mine.sock: accepted"
    assert " ".join(rows[3].split()) == expected


def test_page_loads_and_runs_nothing_but_itself(open_page: Open) -> None:
    browser = open_page(story="evil")

    open_list(browser)

    assert browser.execute_script("return performance.getEntriesByType('resource').map(one => one.name)") == []
    assert browser.execute_script("return window.pwned") is None
    assert any("onerror" in text for text in texts(browser, ".list td"))


def test_paper_has_the_open_story_in_full(open_page: Open) -> None:
    browser = open_page(story="fails")

    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    width = browser.execute_script("return document.querySelector('svg').getAttribute('width')")
    assert (float(width) <= 500, len(texts(browser, ".list tbody tr"))) == (True, 14)

    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert texts(browser, ".list tbody tr") == []
    printed = browser.execute_cdp_cmd("Page.printToPDF", {})  # type: ignore[attr-defined]
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("story", ["fails", "differs"])
def test_page_is_accessible(open_page: Open, width: int, scheme: str, story: str) -> None:
    browser = open_page(width, scheme, story)
    open_list(browser)

    browser.execute_script(AXE)
    found = browser.execute_async_script("axe.run().then(arguments[0])")

    assert [summary(one) for one in found["violations"]] == []
    assert {"color-contrast", "button-name", "label"} <= {one["id"] for one in found["passes"]}


def summary(violation: dict[str, Any]) -> str:
    return f"{violation['id']}: {violation['nodes'][0]['html'][:200]} {violation['nodes'][0]['failureSummary']}"
