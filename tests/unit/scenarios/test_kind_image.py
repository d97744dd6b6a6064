"""The image of plugins and stand-ins, as an archive for a node's containerd."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from faker import Faker

from scenarios.backends.kind.image import archive, layer


def content(made: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(made)) as opened:
        return {entry.name: opened.extractfile(entry).read() for entry in opened}  # type: ignore[union-attr]


def blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    found = files["blobs/" + descriptor["digest"].replace(":", "/")]
    assert descriptor["digest"] == f"sha256:{hashlib.sha256(found).hexdigest()}"
    assert descriptor["size"] == len(found)
    return found


def some_file(folder: Path, faker: Faker) -> Path:
    file = folder / faker.unique.file_name()
    file.write_bytes(faker.binary(length=100))
    return file


def test_every_part_of_an_archive_is_found_by_its_digest(tmp_path: Path, faker: Faker) -> None:
    lower, upper = some_file(tmp_path, faker), some_file(tmp_path, faker)

    files = content(archive({"docker.io/a:1": (layer([lower]), layer([upper]))}))

    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (descriptor,) = json.loads(files["index.json"])["manifests"]
    assert descriptor["annotations"] == {"io.containerd.image.name": "docker.io/a:1"}
    manifest = json.loads(blob(files, descriptor))
    layers = [content(blob(files, one)) for one in manifest["layers"]]
    assert layers == [{str(file).lstrip("/"): file.read_bytes()} for file in (lower, upper)]
    config = json.loads(blob(files, manifest["config"]))
    assert config["rootfs"]["diff_ids"] == [one["digest"] for one in manifest["layers"]]


def test_a_layer_that_the_reader_has_is_left_out_and_still_named(tmp_path: Path, faker: Faker) -> None:
    lower, upper = layer([some_file(tmp_path, faker)]), layer([some_file(tmp_path, faker)])

    files = content(archive({"docker.io/a:1": (lower, upper)}, left_out=(lower,)))

    (descriptor,) = json.loads(files["index.json"])["manifests"]
    assert [one["digest"] for one in json.loads(blob(files, descriptor))["layers"]] == [lower.digest, upper.digest]
    assert "blobs/" + lower.digest.replace(":", "/") not in files


def test_a_link_is_carried_as_what_it_leads_to(tmp_path: Path, faker: Faker) -> None:
    file = some_file(tmp_path, faker)
    link = tmp_path / "link"
    link.symlink_to(file)

    assert content(layer([link]).content) == {str(link).lstrip("/"): file.read_bytes()}
