"""Fed in: configuration files and flags; observed: what the plugin does, or the words with which it ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plugin.errors import FatalError, UsageError
from plugin.iluvatar.config import IluvatarConfig, load_config


def _file(folder: Path, text: str) -> Path:
    path = folder / "ix-config"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "flags", "config"),
    [
        pytest.param("", {}, IluvatarConfig(), id="empty"),
        pytest.param("resourceName: ''", {}, IluvatarConfig(), id="no name"),
        pytest.param("resourceName: iluvatar.com/vgpu", {}, IluvatarConfig("iluvatar.com/vgpu"), id="name"),
        pytest.param("flags: {splitboard: true}", {}, IluvatarConfig(splitboard=True), id="flag in the file"),
        pytest.param("flags: {splitboard: true}", {"splitboard": False}, IluvatarConfig(), id="flag before the file"),
        pytest.param("flags: {usevolcano: true}", {"usevolcano": False}, IluvatarConfig(), id="volcano taken back"),
        pytest.param("sharing: {timeSlicing: {replicas: 4}}", {}, IluvatarConfig(replicas=4), id="replicas"),
        pytest.param("sharing: {timeSlicing: {replicas: 0}}", {}, IluvatarConfig(), id="no replicas"),
        pytest.param("sharing: {mps: {replicas: 4}}", {}, IluvatarConfig(), id="MPS is not looked at"),
        pytest.param("other: 1", {}, IluvatarConfig(), id="unknown key"),
    ],
)
def test_configuration(text: str, flags: dict[str, bool], config: IluvatarConfig, tmp_path: Path) -> None:
    assert load_config(_file(tmp_path, text), flags) == config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            "sharing: {timeSlicing: {replicas: -1}}",
            "Check config failed: timeSlicing.replicas must be > 0, got -1.",
            id="less than none",
        ),
        pytest.param(
            "{flags: {reset_gpu: true}, sharing: {timeSlicing: {replicas: 2}}}",
            "Check config failed: reset_gpu and timeSlicing.replicas cannot be used together.",
            id="reset of shared chips",
        ),
        pytest.param("a: [", "unable to load config: error parsing config file: unmarshal error: ", id="no YAML"),
        pytest.param("[]", "unable to load config: error parsing config file: unmarshal error: ", id="a list"),
        pytest.param("flags: {splitboard: 1}", "unable to load config: error parsing config file: ", id="a number"),
        pytest.param("resourceName: 7", "unable to load config: error parsing config file: ", id="no text"),
        pytest.param(
            "sharing: {timeSlicing: {replicas: many}}", "unable to load config: error parsing config file: ", id="text"
        ),
    ],
)
def test_file_that_cannot_be(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FatalError, match=f"^{re.escape(words)}") as failure:
        load_config(_file(tmp_path, text), {})

    assert failure.value.exit_status == 1


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "ix-config"

    words = f"unable to load config: error opening config file: open {path}: no such file or directory"
    with pytest.raises(FatalError, match=f"^{re.escape(words)}$"):
        load_config(path, {})


@pytest.mark.parametrize("flag", ["usevolcano", "reset_gpu"])
def test_flags_that_take_an_api_server(flag: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"not supported here: {flag}"):
        load_config(_file(tmp_path, ""), {flag: True})
