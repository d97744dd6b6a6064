"""Container images as archives, written without a build: layers of files, each at the path that it has here.

Source: OCI image specification v1.1, image-layout.md, manifest.md and config.md; the annotation that names an image is
that of containerd v2.1 (core/images/annotations.go).
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""The kernel's names -> Go's, where they differ."""
_TYPE: Final = "application/vnd.oci.image."


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes with their place in an image.

    Attributes:
        kind: The media type, without what all have in common.
        digest: By what others refer to it.
    """

    kind: str
    digest: str
    content: bytes

    @classmethod
    def of(cls, kind: str, content: bytes) -> Blob:
        """Some bytes with their digest."""
        return cls(kind, f"sha256:{hashlib.sha256(content).hexdigest()}", content)

    @property
    def descriptor(self) -> dict[str, Any]:
        """A reference to it."""
        return {"mediaType": _TYPE + self.kind, "digest": self.digest, "size": len(self.content)}


def layer(files: Iterable[Path], made: Mapping[str, bytes] = MappingProxyType({})) -> Blob:
    """Files at their own paths, links followed; the same files always give the same bytes.

    Args:
        files: What to copy.
        made: Path -> content, of files that are not there on this machine.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in files:
            archive.add(path.resolve(), str(path), recursive=False, filter=_of_root)
        for name, content in made.items():
            _add(archive, name.removeprefix("/"), content)
    return Blob.of("layer.v1.tar", stream.getvalue())


def archive(images: Mapping[str, Sequence[Blob]], left_out: Sequence[Blob] = ()) -> bytes:
    """Images by name, each with its layers, the lowest first.

    Args:
        images: Full name -> layers.
        left_out: Layers that the reader of the archive has.
    """
    blobs: dict[str, Blob] = {}
    index = []
    for name, layers in images.items():
        manifest, config = _described(layers)
        blobs |= {one.digest: one for one in (*layers, manifest, config)}
        index.append({**manifest.descriptor, "annotations": {"io.containerd.image.name": name}})
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as written:
        _add(written, "oci-layout", _json(imageLayoutVersion="1.0.0"))
        _add(written, "index.json", _json(schemaVersion=2, manifests=index))
        for digest in blobs.keys() - {one.digest for one in left_out}:
            _add(written, f"blobs/{digest.replace(':', '/')}", blobs[digest].content)
    return stream.getvalue()


def _described(layers: Sequence[Blob]) -> tuple[Blob, Blob]:
    """The manifest and the configuration of an image."""
    machine = platform.machine()
    rootfs = {"type": "layers", "diff_ids": [one.digest for one in layers]}
    told = _json(architecture=_ARCHITECTURES.get(machine, machine), os="linux", rootfs=rootfs)
    config = Blob.of("config.v1+json", told)
    parts = _json(schemaVersion=2, config=config.descriptor, layers=[one.descriptor for one in layers])
    return Blob.of("manifest.v1+json", parts), config


def _json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def _add(written: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    written.addfile(entry, io.BytesIO(content))


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
