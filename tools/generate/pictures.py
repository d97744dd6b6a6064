"""Draw the pictures of README.md and the pages: timelines of a report, from the recordings of real runs.

The page of a report draws them, in headless Chromium, so that pictures and page cannot differ; all positions are
computed from the recording, none from a font. A picture has the page's style, so it follows the reader's light or dark
scheme. ``simkubelet run STORY --trace docs/pictures/STORY.jsonl`` makes a new recording; the stories are built in, or
on the page that shows the picture. With ``--check`` nothing is written and the exit status says whether the committed
pictures are current.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Final

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from scenarios.play.recording import read_trace
from scenarios.play.replay import write_replay
from tools.build.apt import AptError
from tools.build.chromium import find

ROOT: Final = Path(__file__).resolve().parents[2]
PICTURES: Final = ROOT / "docs" / "pictures"
STYLE: Final = ROOT / "scenarios" / "report" / "page.css"
ABOUT: Final = {
    "device-unhealthy": "A GPU falls off the bus: who did what, from the story's steps to each GPU and pod",
    "hand-out": "A plugin registers and a pod gets a GPU: the calls between kubelet and plugin, and the pod's status",
    "restart-and-failure": "A kubelet restarts while a pod uses two GPUs; then one of them fails",
}
"""Recording in the folder of pictures -> what its picture shows."""
WIDTH, LABELS, LANE, TOP = 1000, 150, 34, 26
"""Pixels: of the drawing, of the labels beside it, of a lane, and above the first."""
_DRAW: Final = """
const style = document.createElement("style");
style.textContent = `.labels { display: none } .chart { border: 0; width: ${arguments[0]}px; display: block }`;
document.head.append(style);
dispatchEvent(new Event("resize"));
const drawn = document.querySelector(".scroll svg").cloneNode(true);
drawn.querySelectorAll("title, .target").forEach((node) => node.remove());
drawn.querySelectorAll("*").forEach((node) => {
  node.getAttributeNames().filter((name) => /^(role|tabindex|id|aria-.*)$/.test(name))
    .forEach((name) => node.removeAttribute(name));
});
const labels = [...document.querySelectorAll(".label")];
return [drawn.innerHTML, +drawn.getAttribute("width"), +drawn.getAttribute("height"),
  labels.map((one) => [one.textContent, one.classList.contains("device")])];
"""


def draw(browser: str, driver: str) -> dict[Path, str]:
    """Return the file of each picture with its SVG.

    Args:
        browser: The path of Chromium.
        driver: That of its driver.
    """
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    with webdriver.Chrome(options=options, service=Service(driver)) as chrome:
        return {PICTURES / f"{name}.svg": _picture(chrome, name) for name in ABOUT}


def _picture(chrome: webdriver.Chrome, name: str) -> str:
    recording = PICTURES / f"{name}.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        write_replay(Path(folder), recording, read_trace(recording))
        chrome.get(Path(folder, "index.html").as_uri())
        drawn, width, height, labels = chrome.execute_script(_DRAW, WIDTH)
    beside = "\n".join(_label(lane, text, is_device) for lane, (text, is_device) in enumerate(labels))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LABELS + width} {height}" role="img">
<title>{ABOUT[name]}</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
<rect width="100%" height="100%" fill="var(--surface)"/>
<rect width="{LABELS}" height="100%" fill="var(--raised)"/>
{beside}
<svg x="{LABELS}" width="{width}" height="{height}">{drawn}</svg>
</svg>
"""


def _label(lane: int, text: str, is_device: bool) -> str:
    look = 'x="18" font-family="monospace"' if is_device else 'x="12" font-size="12"'
    return f'<text {look} y="{TOP + LANE * lane + LANE / 2 + 4:g}">{escape(text)}</text>'


def main() -> int:
    """Write the pictures, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a committed picture is stale")
    is_check = parser.parse_args().check
    try:
        pictures = draw(*find())
    except AptError as error:
        print(error, file=sys.stderr)
        return 3
    stale = [file for file, picture in pictures.items() if not file.exists() or file.read_text("utf-8") != picture]
    for file in stale:
        if is_check:
            print(f"{file.relative_to(ROOT)} is stale: run python -m tools.generate.pictures", file=sys.stderr)
        else:
            file.write_text(pictures[file], encoding="utf-8")
    return 1 if stale and is_check else 0


if __name__ == "__main__":
    sys.exit(main())
