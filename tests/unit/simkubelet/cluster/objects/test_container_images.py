from __future__ import annotations

import pytest

from simkubelet.cluster.objects.container_images import container_id, image_id, image_name


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("nvidia/cuda:12", "docker.io/nvidia/cuda:12"),
        ("localhost/x", "localhost/x:latest"),
        ("registry.example:5000/x", "registry.example:5000/x:latest"),
        ("ghcr.io/x/y:1@sha256:ab", "ghcr.io/x/y@sha256:ab"),
    ],
)
def test_image_has_its_full_name(image: str, name: str) -> None:
    assert image_name(image) == name


def test_image_is_known_by_the_digest_in_its_name() -> None:
    assert image_id("ghcr.io/x/y:1@sha256:ab") == "ghcr.io/x/y@sha256:ab"


def test_same_image_has_the_same_digest() -> None:
    assert image_id("busybox") == image_id("docker.io/library/busybox:latest")
    assert image_id("busybox") != image_id("busybox:1")


def test_each_start_of_a_container_has_its_own_id() -> None:
    ids = {container_id(pod, name, attempt) for pod in "ab" for name in "cd" for attempt in range(2)}
    assert len(ids) == 8
