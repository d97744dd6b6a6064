"""Each kubelet logs into its own node's file, and not to the terminal."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from scenarios.backends.world import logs as world_logs
from scenarios.backends.world.logs import KubeletLogs
from simkubelet.model.errors import InputError

LOG = logging.getLogger("simkubelet.some_part")


def test_lines_go_to_the_node_in_whose_name_they_are_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def one_of_two_nodes() -> None:
        logs = KubeletLogs(lambda: 12.5)
        logs.start()
        for node in ("a", "b"):
            logs.add_node(node, tmp_path / node)
        with logs.of("a"):
            task = asyncio.create_task(work())
        await task
        LOG.warning("of nobody")
        logs.close()
        logs.close()

    async def work() -> None:
        await asyncio.sleep(0)
        LOG.error("of %s,\nin two lines", "a")

    asyncio.run(one_of_two_nodes())

    assert (tmp_path / "a").read_text() == "   12.500 s  error    of a, in two lines\n   12.500 s  warning  of nobody\n"
    assert (tmp_path / "b").read_text() == "   12.500 s  warning  of nobody\n"
    assert capfd.readouterr() == ("", "")


def test_name_that_is_not_utf_8_is_written_as_an_escape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # pytest-xdist cannot send what its own handler would take.
    monkeypatch.setattr(logging.getLogger("simkubelet"), "propagate", False)
    logs = KubeletLogs(lambda: 0.0)
    logs.start()
    logs.add_node("node-1", tmp_path / "log")

    LOG.error("Could not process manifest file: %s", os.fsdecode(b"\xff.yaml"))
    logs.close()

    assert (tmp_path / "log").read_text().endswith("file: \\udcff.yaml\n")


def test_stories_of_one_process_each_take_their_own_lines(tmp_path: Path) -> None:
    async def story(name: str) -> None:
        logs = KubeletLogs(lambda: 0.0)
        logs.start()
        logs.add_node("node-1", tmp_path / name)
        with logs.of("node-1"):
            task = asyncio.create_task(work(name))
        LOG.warning("%s of nobody", name)
        await task
        logs.close()

    async def work(name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            LOG.warning("%s at work", name)

    async def both() -> None:
        await asyncio.gather(story("a"), story("b"))

    asyncio.run(both())

    for name in "ab":
        said = [line.split("  ")[-1] for line in (tmp_path / name).read_text().splitlines()]
        assert said == [f"{name} of nobody", *[f"{name} at work"] * 3]


def test_ended_story_takes_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = KubeletLogs(lambda: 0.0)
    logs.start()
    logs.add_node("a", tmp_path / "a")
    logs.close()

    LOG.error("later")

    assert (tmp_path / "a").read_text() == ""
    assert caplog.messages == ["later"]


def test_log_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    logs = KubeletLogs(lambda: 0.0)

    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        logs.add_node("a", tmp_path / "no" / "folder")


def test_long_log_is_continued_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_logs, "_MAX_LOG_BYTES", 1000)
    logs = KubeletLogs(lambda: 0.0)
    logs.start()
    logs.add_node("a", tmp_path / "a")

    for number in range(1000):
        LOG.warning("line %d", number)
    logs.close()

    files = [tmp_path / "a.1", tmp_path / "a"]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert max(file.stat().st_size for file in files) < 1100
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert lines == [f"    0.000 s  warning  line {number}" for number in range(1000 - len(lines), 1000)]


def test_full_disk_loses_lines_and_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = KubeletLogs(lambda: 0.0)
    logs.start()
    (tmp_path / "a").symlink_to("/dev/full")
    # It makes a new file otherwise.
    monkeypatch.setattr(world_logs, "open_without_links", lambda path, mode, **how: path.open("w", **how))
    logs.add_node("a", tmp_path / "a")

    for _ in range(3):
        LOG.warning("a line")
    logs.close()


def test_long_log_whose_folder_became_a_link_is_not_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_logs, "_MAX_LOG_BYTES", 1000)
    logs = KubeletLogs(lambda: 0.0)
    (tmp_path / "logs").mkdir()
    (tmp_path / "decoy").mkdir()
    (tmp_path / "decoy" / "a").write_text("another's")
    logs.start()
    logs.add_node("a", tmp_path / "logs" / "a")
    (tmp_path / "logs").rename(tmp_path / "was")
    (tmp_path / "logs").symlink_to("decoy")

    for number in range(100):
        LOG.warning("line %d", number)
    logs.close()

    assert [file.name for file in (tmp_path / "decoy").iterdir()] == ["a"]
