"""The DRA manager's checkpoint, the kubelet's ``dra_manager_state``: how it is written, and how it is read.

The file is one line of JSON that has the data as a text, and the CRC-32 of that text. Whether a claim is prepared is
not in it. A file that cannot be used ends the start of the kubelet.

Source: pkg/kubelet/cm/dra/state/checkpoint.go, checkpointer.go, state.go (kubernetes v1.34.4, v1.35.4);
cm/dra/claiminfo.go, ``newClaimInfoCache``.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from .._internal.replaced_file import FileNotReplacedError, replace_file
from ..apis.documents import LARGEST_FILE, MOST_VALUES, read_file
from ..golang.text import InvalidJsonError, json_string, read_json
from ..model.version import Version
from .claim_info import ClaimInfo
from .claim_text import UnreadClaim, encode_info, find_claims
from .claim_values import Struct, go_kind, read_infos

__all__ = [
    "CHECKPOINT_NAME",
    "BadCheckpointError",
    "ClaimsFile",
    "ClaimsNotWrittenError",
    "decode",
    "encode",
]

CHECKPOINT_NAME: Final = "dra_manager_state"
_NOT_SAVED: Final = f"could not save checkpoint {CHECKPOINT_NAME}"
_HEAD: Final = '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":'
_ESCAPED_HEAD: Final = json_string(_HEAD)[1:-1]
_MAX_UINT32: Final = (1 << 32) - 1
_FILE: Final = Struct("Data", "Checksum")
_DATA: Final = Struct("kind", "apiVersion", "ClaimInfoStateList")


class BadCheckpointError(Exception):
    """The kubelet does not start with this file; the message is its own."""


class ClaimsNotWrittenError(Exception):
    """The checkpoint could not be written; the message is the kubelet's."""


class ClaimsFile:
    """The checkpoint in a kubelet's folder.

    It is written whole, before and after each call of drivers: the text of a claim that has not changed is kept.

    Args:
        folder: where it is.
        version: the minor that writes it.
    """

    def __init__(self, folder: Path, version: Version) -> None:
        self._folder = folder
        self._version = version
        self._texts: dict[tuple[str, str], _ClaimText] = {}

    def load(self) -> Sequence[ClaimInfo | UnreadClaim]:
        """Check it; where there is none, write an empty one.

        Claims of which every text is as this kubelet writes it are not read yet, nor do they fail when they are.

        Raises:
            BadCheckpointError: it cannot be used, or it can be neither read nor written.
        """
        path = self._folder / CHECKPOINT_NAME
        try:
            text = read_file(path, within_s=0).decode(errors="replace")
        except FileNotFoundError:
            try:
                self._write(encode(None, self._version).encode())
            except FileNotReplacedError as error:
                reason = f"failed to store checkpoint {CHECKPOINT_NAME}: {_NOT_SAVED}: "
                raise BadCheckpointError(f"GetOrCreate() on checkpoint state: {reason}{error}") from None
            return []
        except OSError as error:
            reason = f"failed to get checkpoint {CHECKPOINT_NAME}: open {path}: {(error.strerror or '').lower()}"
            raise BadCheckpointError(f"GetOrCreate() on checkpoint state: {reason}") from None
        with _without_collections():
            data = _data(text)
            return _unread_claims(data, self._version) or _infos(data)

    def check(self, claims: Iterable[ClaimInfo | UnreadClaim]) -> None:
        """Make sure that a file of these claims would be read again.

        Raises:
            ClaimsNotWrittenError: it is too large.
        """
        self._content(claims)

    def save(self, claims: Iterable[ClaimInfo | UnreadClaim]) -> None:
        """Write it.

        Raises:
            ClaimsNotWrittenError: it is too large to be read again, or the disk does not take it.
        """
        content = self._content(claims)
        try:
            self._write(content)
        except FileNotReplacedError as error:
            raise ClaimsNotWrittenError(f"{_NOT_SAVED}: {error}") from None

    def _content(self, claims: Iterable[ClaimInfo | UnreadClaim]) -> bytes:
        kept = self._texts
        self._texts = {(one.namespace, one.name): _ClaimText.of(one, self._version, kept) for one in claims}
        content = _text_of(self._texts.values()).encode()
        if len(content) > LARGEST_FILE:
            raise ClaimsNotWrittenError(f"{_NOT_SAVED}: it would be larger than {LARGEST_FILE >> 20} MiB")
        if content.count(b",") > MOST_VALUES:
            raise ClaimsNotWrittenError(f"{_NOT_SAVED}: it would have more than {MOST_VALUES} values")
        return content

    def _write(self, content: bytes) -> None:
        replace_file(self._folder, CHECKPOINT_NAME, content)


class _ClaimText(NamedTuple):
    """A claim as it is in the data, and as that is in the text around the data.

    Attributes:
        state: what the text is made of; empty for a claim that was not read.
    """

    state: tuple[object, ...]
    plain: str
    escaped: str

    @classmethod
    def of(
        cls, claim: ClaimInfo | UnreadClaim, version: Version, kept: Mapping[tuple[str, str], _ClaimText]
    ) -> _ClaimText:
        known = kept.get((claim.namespace, claim.name))
        if isinstance(claim, UnreadClaim):
            if known is not None and known.plain == claim.text:
                return known
            return cls((), claim.text, json_string(claim.text)[1:-1])
        state = (claim.uid, *claim.pods, *claim.drivers.items())
        if known is not None and known.state == state:
            return known
        plain = encode_info(claim, version)
        return cls(state, plain, json_string(plain)[1:-1])


def _text_of(claims: Collection[_ClaimText] | None) -> str:
    plain = "null" if claims is None else f"[{','.join(one.plain for one in claims)}]"
    escaped = "null" if claims is None else f"[{','.join(one.escaped for one in claims)}]"
    checksum = crc32(f"{_HEAD}{plain}}}".encode())
    return f'{{"Data":"{_ESCAPED_HEAD}{escaped}}}","Checksum":{checksum}}}'


def encode(infos: Iterable[ClaimInfo] | None, version: Version) -> str:
    """The text of a file; None is the list of a kubelet that has never written one."""
    return _text_of(None if infos is None else [_ClaimText.of(info, version, {}) for info in infos])


def decode(text: str) -> list[ClaimInfo]:
    """Read the text of a file.

    What it leaves out, be it the data or the checksum, is as in a file without claims.

    Raises:
        BadCheckpointError: it cannot be used.
    """
    with _without_collections():
        return _infos(_data(text))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Of a thousand claims come ten thousand objects, among which Python's collector would search for garbage."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _data(text: str) -> str:
    """The data of a file, as a text.

    Raises:
        BadCheckpointError: it is no checkpoint, or another one than was written.
    """
    try:
        return _read_data(text)
    except (InvalidJsonError, ValueError) as error:
        reason = f"failed to get checkpoint {CHECKPOINT_NAME}: {error}"
        raise BadCheckpointError(f"GetOrCreate() on checkpoint state: {reason}") from None


def _unread_claims(data: str, version: Version) -> list[ClaimInfo | UnreadClaim]:
    """The claims of data that is as this kubelet writes it; none where it is another."""
    found = find_claims(data, version)
    if data != f"{_HEAD}[{','.join(claim.text for claim in found)}]}}":
        return []
    return [claim if claim.is_in_order else claim.read() for claim in found]


def _infos(data: str) -> list[ClaimInfo]:
    """The claims of the data.

    Raises:
        BadCheckpointError: there is something else.
    """
    try:
        *_, listed = _DATA.fields(read_json(data))
        return read_infos(listed or ())
    except (AttributeError, InvalidJsonError, TypeError, ValueError) as error:
        raise BadCheckpointError(f"GetEntries() on checkpoint: {error}") from None


def _read_data(text: str) -> str:
    # It is read while the other nodes of the process wait.
    if text.count(",") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values")
    document = read_json(text)
    if not isinstance(document, dict | None):
        raise ValueError(f"json: cannot unmarshal {go_kind(document)} into Go value of type state.Checkpoint")
    empty = f"{_HEAD}null}}"
    given_data, given_checksum = _FILE.fields(document)
    data: str = _kept(given_data, empty, str, "Data of type string")
    checksum: int = _kept(given_checksum, crc32(empty.encode()), int, "Checksum of type uint32")
    if not 0 <= checksum <= _MAX_UINT32:
        raise ValueError(
            f"json: cannot unmarshal number {checksum} into Go struct field Checkpoint.Checksum of type uint32"
        )
    if crc32(data.encode()) != checksum:
        raise ValueError("checkpoint is corrupted")
    return data


def _kept(value: Any, default: Any, kind: type, field: str) -> Any:
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        found = f"number {value}" if isinstance(value, float) and kind is int else go_kind(value)
        raise ValueError(f"json: cannot unmarshal {found} into Go struct field Checkpoint.{field}")
    return value
