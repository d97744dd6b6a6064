"""What a page of the documentation site may load."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check.site import findings


@pytest.mark.parametrize(
    ("name", "text", "is_found"),
    [
        pytest.param("a.html", '<a href="https://example.com/x">x</a>', False, id="link"),
        pytest.param("a.html", '<script src="_static/x.js"></script>', False, id="own script"),
        pytest.param("a.html", '<script src="https://example.com/x.js"></script>', True, id="script"),
        pytest.param("a.html", '<link rel="stylesheet" href="//example.com/x.css"/>', True, id="style"),
        pytest.param("a.html", '<img src="https://example.com/x.png">', True, id="picture"),
        pytest.param("a.html", "<style>@import 'https://example.com/x.css';</style>", True, id="import in a page"),
        pytest.param("a.css", "a { background: url( 'https://example.com/x.png' ) }", True, id="picture of a style"),
        pytest.param("a.css", "a { background: url(x.png) } /* https://example.com */", False, id="own picture"),
        pytest.param("a.svg", '<svg><image href="https://example.com/x.png"/></svg>', True, id="picture in a picture"),
    ],
)
def test_what_comes_from_the_network_is_found(tmp_path: Path, name: str, text: str, is_found: bool) -> None:
    (tmp_path / name).write_text(text)

    assert len([*findings(tmp_path)]) == is_found
