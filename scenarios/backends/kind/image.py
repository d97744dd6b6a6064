"""The image of plugins, stand-ins and the agent: this very interpreter, what it imports, and the libraries below both.

Every file has the same path in the image as here, so nothing is built or downloaded, and what runs on the node is what
runs here, checkout or installed wheel. What changes often, our own code, is a layer on top of an image with the rest,
so a node that has the rest is sent little. Both have bytecode: a container starts in a fraction of the time. The
archive for the node is written without a build: layers of files.

Source: OCI image specification v1.1, image-layout.md, manifest.md and config.md; the annotation that names an image is
that of containerd v2.1 (core/images/annotations.go).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import json
import platform
import py_compile
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from simkubelet.host import CHECKOUT, module_name

_OURS: Final = (
    "simkubelet/__init__.py",
    "simkubelet/host.py",
    "simkubelet/apis",
    "simkubelet/_internal/__init__.py",
    "simkubelet/_internal/file_tree.py",
    "simkubelet/_internal/lazy.py",
    "simkubelet/model/__init__.py",
    "simkubelet/model/errors.py",
    "simkubelet/model/resources.py",
    "simkubelet/model/short_texts.py",
    "simkubelet/model/words.py",
    "simkubelet/runtime/__init__.py",
    "simkubelet/runtime/cri_call.py",
    "fakegpu",
)
_BUNDLED: Final = {
    "plugin": ("",),
    "scenarios": (
        "__init__.py",
        "tap",
        "trace/__init__.py",
        "trace/snapshot.py",
        "backends/__init__.py",
        "backends/world/__init__.py",
        "backends/world/hardware.py",
        "backends/world/marked_processes.py",
        "backends/world/pod_resources.py",
        "backends/kind/__init__.py",
        "backends/kind/agent.py",
    ),
}
"""What is needed of the packages that a wheel may have below another package: see `host.module_name`."""
_UNUSED: Final = {
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "site-packages",
    "lib2to3",
    "pydoc_data",
    "_generated_tests",
}
_SHELL: Final = Path("/bin/sh")


@dataclass(frozen=True, slots=True)
class PluginImage:
    """What runs on a node: its `name` with a tag made of its content, the interpreter, and its search path."""

    name: str
    python: str
    python_path: str

    @property
    def reference(self) -> str:
        """Its name as a node's containerd has it."""
        return f"docker.io/{self.name}"

    @property
    def environment(self) -> dict[str, str]:
        """What every process of this image needs."""
        return {"PYTHONPATH": self.python_path, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class ImageSource:
    """An image that can be made.

    Attributes:
        base: Full name of the image below it.
        others: The files of both images.
        own: The files of the upper one alone.
    """

    image: PluginImage
    base: str
    others: tuple[Path, ...]
    own: tuple[Path, ...]

    def archive(self, *, with_base: bool) -> bytes:
        """The image, with or without the one below it, as `ctr images import` takes it."""
        lower, upper = layer(self.others), layer(self.own, _bytecode(self.own))
        images = {self.image.reference: (lower, upper)}
        return archive({self.base: (lower,), **images}) if with_base else archive(images, left_out=(lower,))


def image_source() -> ImageSource:
    """Look up all files of the image."""
    python = Path(sys.executable).resolve()
    own = sorted(set(_packages()))
    others = sorted(set(_files(python)) - set(own))
    image = PluginImage(
        f"simkubelet/plugin:{_content([*others, *own])}", str(python), ":".join(str(path) for path in _search_path())
    )
    return ImageSource(image, f"docker.io/simkubelet/interpreter:{_content(others)}", tuple(others), tuple(own))


def _search_path() -> list[Path]:
    found = [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")]
    return list(dict.fromkeys([*found, CHECKOUT]))


def _files(python: Path) -> Iterator[Path]:
    """All that is not ours, libraries included, and distributions."""
    found = [python, _SHELL, *_below(Path(sysconfig.get_path("stdlib"))), *_distributions()]
    yield from found
    yield from _libraries(path for path in found if path in (python, _SHELL) or ".so" in path.name)


def _below(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name in _UNUSED or entry.name.startswith("config-"):
            continue
        if entry.is_dir():
            yield from _below(entry)
        elif entry.suffix != ".a" and _is_ours_to_read(entry):
            yield entry


def _is_ours_to_read(path: Path) -> bool:
    """Whether a file is not bytecode of another Python, or for ``-O``."""
    return path.suffix != ".pyc" or path.name.endswith(f".{sys.implementation.cache_tag}.pyc")


def _bytecode(files: Iterable[Path]) -> dict[str, bytes]:
    """The bytecode of modules: path -> content. The image has the source beside it, which cannot change there."""
    found = {}
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder, "compiled")
        for path in files:
            if path.suffix == ".py":
                py_compile.compile(str(path), str(compiled), doraise=True, invalidation_mode=unchecked)
                found[importlib.util.cache_from_source(str(path))] = compiled.read_bytes()
    return found


def _packages() -> Iterator[Path]:
    """What plugins and the agent import of ours."""
    bundled = [
        f"{module_name(package).replace('.', '/')}/{part}" for package, parts in _BUNDLED.items() for part in parts
    ]
    for name in (*_OURS, *bundled):
        place = CHECKOUT / name
        # Bytecode is made for the image: which modules have any here depends on what has run.
        yield from (path for path in (_below(place) if place.is_dir() else [place]) if path.suffix != ".pyc")


def _distributions() -> Iterator[Path]:
    """The files of the distributions that simkubelet needs."""
    wanted, seen = ["simkubelet"], set[str]()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        wanted += [re.split(r"[^\w.-]", one)[0] for one in distribution.requires or () if "extra ==" not in one]
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and _is_ours_to_read(path) and path.is_file():
                yield path


def _libraries(programs: Iterable[Path]) -> Iterator[Path]:
    """What the dynamic loader loads for them: its own answer."""
    listed = subprocess.run(["/usr/bin/ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    for path in {*re.findall(r"(/\S+) \(0x", listed.stdout)}:
        yield Path(path)


def _content(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        state = path.stat()
        digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


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
    platform_config = _json(architecture=_ARCHITECTURES.get(machine, machine), os="linux", rootfs=rootfs)
    config = Blob.of("config.v1+json", platform_config)
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
