"""Fed in: device nodes and what is asked for; observed: the channels, or why there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugin.nvidia.discovery.node import ImexChannel, ImexError, find_channels

_PATH = "/dev/nvidia-caps-imex-channels/channel0"


def _place(root: Path, path: str, target: str | None) -> None:
    """A node that is what `target` is; a plain file where that is None."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True)
    if target is None:
        place.touch()
    else:
        place.symlink_to(target)


def _found(root: Path, dev_root: str = "/driver", *, is_required: bool = True) -> tuple[ImexChannel, ...]:
    return find_channels((0,), dev_root, is_required=is_required, on_host=lambda path: root / path.relative_to("/"))


@pytest.mark.parametrize("folder", ["/driver", ""])
def test_channel_is_found_below_the_dev_root_or_the_nodes_own(tmp_path: Path, folder: str) -> None:
    _place(tmp_path, f"{folder}{_PATH}", "/dev/null")

    assert _found(tmp_path) == (ImexChannel("0", _PATH, f"/driver{_PATH}"),)


def test_missing_channel_is_passed_over_unless_it_is_required(tmp_path: Path) -> None:
    assert _found(tmp_path, is_required=False) == ()
    with pytest.raises(ImexError, match=r"^requested IMEX channel channel0 does not exist$"):
        _found(tmp_path)


def test_channel_must_be_a_device(tmp_path: Path) -> None:
    _place(tmp_path, _PATH, None)

    with pytest.raises(ImexError) as error:
        _found(tmp_path, "/")

    assert str(error.value).splitlines() == [
        f"{_PATH} is not a character device",
        "requested IMEX channel channel0 does not exist",
    ]


def test_nothing_is_looked_for_where_nothing_is_asked_for(tmp_path: Path) -> None:
    assert find_channels((), "/", is_required=True, on_host=lambda path: tmp_path / path) == ()
