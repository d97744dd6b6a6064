"""What is done in place of hooks of NVIDIA's container toolkit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from simkubelet.apis.cdi import Hook
from simkubelet.runtime.container_runtime import ContainerStartError
from simkubelet.runtime.container_setup import links_of


@pytest.mark.parametrize(
    ("args", "links"),
    [
        (
            ("nvidia-cdi-hook", "create-symlinks", "--link", "b::/lib/a", "--link", "/d::/c"),
            {"/lib/a": "b", "/c": "/d"},
        ),
        (("/usr/bin/nvidia-ctk", "hook", "create-symlinks", "--link", "b::/a"), {"/a": "b"}),
        (("nvidia-cdi-hook", "create-symlinks"), {}),
        (("nvidia-cdi-hook", "update-ldcache", "--folder", "/lib"), None),
        (("anything",), None),
        ((), None),
    ],
)
def test_links_are_those_that_the_arguments_name(args: tuple[str, ...], links: Mapping[str, str] | None) -> None:
    assert links_of(Hook(hook_name="createContainer", path="/hook", args=args)) == links


@pytest.mark.parametrize("link", ["", "a", "a::b::c", "::::"])
def test_link_that_the_hook_refuses_keeps_the_container_from_starting(link: str) -> None:
    args = ("nvidia-cdi-hook", "create-symlinks", "--link", "a::/b", "--link", link)

    with pytest.raises(ContainerStartError, match=rf"invalid symlink specification {link}"):
        links_of(Hook(hook_name="createContainer", path="/hook", args=args))
