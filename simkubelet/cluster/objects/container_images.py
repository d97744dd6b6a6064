"""What a container runtime would call images and containers: names, digests and ids that no registry has given.

They are made from what they name, so the same image has the same digest on every node and in every run.
"""

from __future__ import annotations

import hashlib

from ...model.short_texts import cached_if_short

__all__ = ["container_id", "image_id", "image_name"]


def container_id(pod_uid: str, container: str, attempt: int) -> str:
    """The id of one run of a container."""
    return f"containerd://{_digest(f'{pod_uid}/{container}/{attempt}')}"


@cached_if_short
def image_name(image: str) -> str:
    """The full name of an image: ``docker.io/library/busybox:latest`` for ``busybox``.

    Source: distribution/reference, ``ParseDockerRef`` (v0.6.0).
    """
    repository, tag = _split(image)
    return f"{repository}{tag}"


@cached_if_short
def image_id(image: str) -> str:
    """The image by its digest: the one in its name, or one computed in place of a registry's answer."""
    repository, tag = _split(image)
    return f"{repository}{tag}" if tag.startswith("@") else f"{repository}@sha256:{_digest(repository + tag)}"


def _split(image: str) -> tuple[str, str]:
    """Return an image's full repository and its tag or digest, with the ``:`` or ``@`` before it."""
    name, at, digest = image.partition("@")
    place, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    repository = f"{place}{slash}{last}"
    domain, _, rest = repository.partition("/")
    if not rest:
        repository = f"docker.io/library/{repository}"
    elif "." not in domain and ":" not in domain and domain != "localhost":
        repository = f"docker.io/{repository}"
    return repository, f"{at}{digest}" if at else f":{tag}" if colon else ":latest"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
