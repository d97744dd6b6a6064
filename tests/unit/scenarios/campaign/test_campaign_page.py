"""The page of a campaign, as a reader of its HTML finds it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scenarios.campaign.page import html, write_page
from scenarios.campaign.player import Played
from scenarios.campaign.results import Results
from scenarios.campaign.shrinker import Shrunk

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
Play = Callable[..., Played]


def test_page_shows_what_was_played_and_each_finding_with_its_story(results: Results, play: Play) -> None:
    results.add([play(0), play(1, "expected <one>; actual <two>", steps=12), play(2, "expected <one>; actual <two>")])
    shrunk = Shrunk("seed-7-story-1", "name: seed-7-story-1\nsteps: [a & b]\n", 2, is_repeated=False)
    results.add_finding(results.findings()[0].signature, shrunk)

    page = html(results, NOW)

    assert "seed 7 · 3 stories · 2026-01-02 03:04 UTC" in page
    assert "expected &lt;one&gt;; actual &lt;two&gt;" in page
    assert "seed-7-story-1.yaml, 2 steps; did not fail again when played alone" in page
    assert "steps: [a &amp; b]" in page


def test_plots_have_a_bar_for_each_class_with_the_part_that_failed(results: Results, play: Play) -> None:
    results.add([play(0), play(1, "it failed", steps=11), play(2)])

    page = html(results, NOW)

    assert re.findall(r"<figcaption>(.*?)</figcaption>", page) == [
        "Stories in each minute",
        "Stories by their steps",
        "Stories by the real time that they took",
    ]
    titles = re.findall(r"<title>(.*?)</title>", page)
    assert [title for title in titles if "steps" in title] == [
        "9 steps: 2 stories",
        "10 steps: 0 stories",
        "11 steps: 1 story, 1 failed",
    ]
    assert "up to 0.25 s: 3 stories" in titles
    length = page.partition("Stories by their steps")[2].partition("</figure>")[0]
    assert re.findall(r'class="tick"[^>]*>(.*?)<', length) == ["0", "1", "2"]
    assert re.findall(r'class="label"[^>]*>(.*?)<', length) == ["9", "10", "11", "steps"]


@pytest.mark.parametrize(
    ("count", "ticks"), [(1, ["0", "1"]), (11, ["0", "5", "10", "15"]), (37, ["0", "10", "20", "30", "40"])]
)
def test_axis_has_few_round_ticks(results: Results, play: Play, count: int, ticks: list[str]) -> None:
    results.add([play(number) for number in range(count)])

    figure = html(results, NOW).partition("Stories by their steps")[2].partition("</figure>")[0]

    assert re.findall(r'class="tick"[^>]*>(.*?)<', figure) == ticks


def test_plot_of_a_long_campaign_has_at_most_sixty_bars(results: Results, play: Play) -> None:
    results.add([play(0), play(1, played_at=1_800_000_000.0 + 90_000)])

    page = html(results, NOW)

    figure = page.partition("Stories in each 26 minutes")[2].partition("</figure>")[0]
    assert figure.count("<g>") == 58


def test_page_of_a_campaign_that_has_played_nothing_says_so(results: Results) -> None:
    page = html(results, NOW)

    assert "No story failed." in page
    assert "<figure>" not in page


def test_page_loads_nothing(results: Results, play: Play, tmp_path: Path) -> None:
    results.add([play(0), play(1, "it failed")])

    page = write_page(tmp_path / "new" / "page", results).read_text(encoding="utf-8")

    assert not re.search(r"""(?:src|href)=["']?https?:|@import|url\(""", page)
    assert "default-src 'none'; base-uri 'none'; form-action 'none'" in page
