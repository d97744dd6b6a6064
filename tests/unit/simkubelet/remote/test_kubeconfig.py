from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkubelet.model.errors import InputError
from simkubelet.remote import read_kubeconfig
from tools.control_plane import Authority


def write(path: Path, user: dict[str, Any], **cluster: Any) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_token_becomes_a_header(tmp_path: Path) -> None:
    access = read_kubeconfig(write(tmp_path / "config", {"token": "secret"}))

    assert (access.url, access.authorization, access.tls) == ("http://127.0.0.1:1", "Bearer secret", None)


def test_password_becomes_a_header(tmp_path: Path) -> None:
    access = read_kubeconfig(write(tmp_path / "config", {"username": "me", "password": "x"}))

    assert base64.b64decode(access.authorization.removeprefix("Basic ")) == b"me:x"


def test_certificate_authority_is_read_from_its_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    access = read_kubeconfig(
        write(tmp_path / "config", {}, server="https://127.0.0.1:1", **{"certificate-authority": "ca.crt"})
    )

    assert access.authority == authority.path.read_text()


def test_token_file_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    access = read_kubeconfig(write(tmp_path / "config", {"tokenFile": "token"}))

    assert access.token_file == tmp_path / "token"


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        pytest.param({"auth-provider": {"name": "gcp"}}, {}, "'auth-provider' is not supported", id="auth provider"),
        pytest.param({}, {"proxy-url": "http://proxy"}, "'proxy-url' is not supported", id="proxy"),
        pytest.param({}, {"certificate-authority": "none.crt", "server": "https://h"}, "none.crt", id="no such file"),
        pytest.param(
            {}, {"certificate-authority-data": "bm8=", "server": "https://h"}, "cannot be used", id="no certificate"
        ),
        pytest.param({}, {"certificate-authority-data": "%", "server": "https://h"}, "not of the form", id="no base64"),
    ],
)
def test_unusable_kubeconfig_is_one_clear_line(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words) as error:
        read_kubeconfig(write(tmp_path / "config", user, **cluster))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["a: [", "- 1", "current-context: x", "contexts: 3\ncurrent-context: x", "\xff: \x00"])
def test_damaged_kubeconfig_is_one_clear_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)

    with pytest.raises(InputError) as error:
        read_kubeconfig(tmp_path / "config")
    assert "\n" not in str(error.value)


def test_context_that_is_missing_names_those_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no context 'y'; it has: x"):
        read_kubeconfig(write(tmp_path / "config", {}), context="y")
