"""Files that a command writes where an option says: their folders are made, and what fails names the option."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from simkubelet.model.errors import InputError


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, where they are missing.

    Raises:
        OSError: It cannot be made.
    """
    # Where a file is in the folder's place, writing into it gives the clearer error.
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def written_for(option: str) -> Iterator[None]:
    """Do what writes the file or the folder of an option.

    Raises:
        InputError: It cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"{option}: '{error.filename}' cannot be written: {error.strerror}") from error
