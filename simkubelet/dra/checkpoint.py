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
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from .._internal.replaced_file import FileNotReplacedError, replace_file
from ..golang.text import InvalidJsonError, json_list, json_string, read_json
from ..model.pod import PodUID
from ..model.version import Difference, Version
from .claim_info import ClaimInfo, PreparedDevice

__all__ = [
    "CHECKPOINT_NAME",
    "BadCheckpointError",
    "ClaimsFile",
    "ClaimsNotWrittenError",
    "decode",
    "encode",
    "encode_info",
]

_KEEPS_SHARE_IDS: Final = Difference(
    "the DRA manager's checkpoint has the share id of each device",
    {"1.26": False, "1.35": True},
    "pkg/kubelet/cm/dra/state/state.go, ``Device`` (kubernetes v1.34.4, v1.35.4)",
)

CHECKPOINT_NAME: Final = "dra_manager_state"
_HEAD: Final = '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":'
_ESCAPED_HEAD: Final = json_string(_HEAD)[1:-1]
_GO_KINDS: Final[Mapping[type, str]] = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
_MAX_UINT32: Final = (1 << 32) - 1


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

    def load(self) -> list[ClaimInfo]:
        """Read it; where there is none, write an empty one.

        Raises:
            BadCheckpointError: it cannot be used, or it can be neither read nor written.
        """
        path = self._folder / CHECKPOINT_NAME
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            try:
                self._write(encode(None, self._version))
            except FileNotReplacedError as error:
                reason = f"failed to store checkpoint {CHECKPOINT_NAME}: could not save checkpoint {CHECKPOINT_NAME}: "
                raise BadCheckpointError(f"GetOrCreate() on checkpoint state: {reason}{error}") from None
            return []
        except OSError as error:
            reason = f"failed to get checkpoint {CHECKPOINT_NAME}: open {path}: {(error.strerror or '').lower()}"
            raise BadCheckpointError(f"GetOrCreate() on checkpoint state: {reason}") from None
        return decode(text)

    def save(self, infos: Iterable[ClaimInfo]) -> None:
        """Write it.

        Raises:
            ClaimsNotWrittenError: the disk does not take it.
        """
        kept = self._texts
        self._texts = {(info.namespace, info.name): _ClaimText.of(info, self._version, kept) for info in infos}
        try:
            self._write(_text_of(self._texts.values()))
        except FileNotReplacedError as error:
            raise ClaimsNotWrittenError(f"could not save checkpoint {CHECKPOINT_NAME}: {error}") from None

    def _write(self, text: str) -> None:
        replace_file(self._folder, CHECKPOINT_NAME, text.encode())


class _ClaimText(NamedTuple):
    """A claim as it is in the data, and as that is in the text around the data."""

    state: tuple[object, ...]
    plain: str
    escaped: str

    @classmethod
    def of(cls, info: ClaimInfo, version: Version, kept: Mapping[tuple[str, str], _ClaimText]) -> _ClaimText:
        state = (info.uid, *info.pods, *info.drivers.items())
        known = kept.get((info.namespace, info.name))
        if known is not None and known.state == state:
            return known
        plain = encode_info(info, version)
        return cls(state, plain, json_string(plain)[1:-1])


def _text_of(claims: Collection[_ClaimText] | None) -> str:
    plain = "null" if claims is None else _list(one.plain for one in claims)
    escaped = "null" if claims is None else _list(one.escaped for one in claims)
    checksum = crc32(f"{_HEAD}{plain}}}".encode())
    return f'{{"Data":"{_ESCAPED_HEAD}{escaped}}}","Checksum":{checksum}}}'


def encode(infos: Iterable[ClaimInfo] | None, version: Version) -> str:
    """The text of a file; None is the list of a kubelet that has never written one."""
    return _text_of(None if infos is None else [_ClaimText.of(info, version, {}) for info in infos])


def encode_info(info: ClaimInfo, version: Version) -> str:
    """One claim, as it is in the data of a file."""
    has_share_ids = _KEEPS_SHARE_IDS.at(version)
    pods = ",".join(f"{json_string(pod)}:{{}}" for pod in sorted(info.pods))
    drivers = ",".join(
        f'{json_string(driver)}:{{"Devices":{_devices(info.drivers[driver], has_share_ids)}}}'
        for driver in sorted(info.drivers)
    )
    return (
        f'{{"ClaimUID":{json_string(info.uid)},"ClaimName":{json_string(info.name)},'
        f'"Namespace":{json_string(info.namespace)},"PodUIDs":{{{pods}}},"DriverState":{{{drivers}}}}}'
    )


def _devices(devices: Sequence[PreparedDevice] | None, has_share_ids: bool) -> str:
    return "null" if devices is None else _list(_device(device, has_share_ids) for device in devices)


def _device(device: PreparedDevice, has_share_ids: bool) -> str:
    share_id = "null" if device.share_id is None else json_string(device.share_id)
    share = f'"ShareID":{share_id},' if has_share_ids else ""
    return (
        f'{{"PoolName":{json_string(device.pool)},"DeviceName":{json_string(device.name)},{share}'
        f'"RequestNames":{_texts(device.requests)},"CDIDeviceIDs":{_texts(device.cdi_ids)}}}'
    )


def _texts(texts: Sequence[str] | None) -> str:
    return "null" if texts is None else json_list(texts)


def _list(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"


def decode(text: str) -> list[ClaimInfo]:
    """Read the text of a file.

    What it leaves out, be it the data or the checksum, is as in a file without claims.

    Raises:
        BadCheckpointError: it cannot be used.
    """
    with _without_collections():
        try:
            data = _data(text)
        except (InvalidJsonError, ValueError) as error:
            reason = f"failed to get checkpoint {CHECKPOINT_NAME}: {error}"
            raise BadCheckpointError(f"GetOrCreate() on checkpoint state: {reason}") from None
        try:
            *_, listed = _DATA.fields(read_json(data))
            return _read_infos(listed or ())
        except (AttributeError, InvalidJsonError, TypeError, ValueError) as error:
            raise BadCheckpointError(f"GetEntries() on checkpoint: {error}") from None


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
        ValueError: it is no checkpoint.
        InvalidJsonError: it is no JSON.
    """
    document = read_json(text)
    if not isinstance(document, dict | None):
        kind = _GO_KINDS[type(document)]
        raise ValueError(f"json: cannot unmarshal {kind} into Go value of type state.Checkpoint")
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
        found = f"number {value}" if isinstance(value, float) and kind is int else _go_kind(value)
        raise ValueError(f"json: cannot unmarshal {found} into Go struct field Checkpoint.{field}")
    return value


def _go_kind(value: object) -> str:
    return _GO_KINDS.get(type(value), "object")


class _Struct:
    """A struct of Go: reads its fields out of an object, whose names may be in any case."""

    def __init__(self, *names: str) -> None:
        self._names = tuple(name.lower() for name in names)

    def fields(self, value: Any) -> tuple[Any, ...]:
        """The values in the order of the names; None for what is left out."""
        parts = {name.lower(): part for name, part in (value or {}).items()}
        return tuple(map(parts.get, self._names))


_INFO_NAMES: Final = ("ClaimUID", "ClaimName", "Namespace", "PodUIDs", "DriverState")
_DEVICE_NAMES: Final = ("PoolName", "DeviceName", "RequestNames", "CDIDeviceIDs")
_FILE: Final = _Struct("Data", "Checksum")
_DATA: Final = _Struct("kind", "apiVersion", "ClaimInfoStateList")
_INFO: Final = _Struct(*_INFO_NAMES)
_DRIVER: Final = _Struct("Devices")
_DEVICE: Final = _Struct(*_DEVICE_NAMES, "ShareID")
_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its class takes."""
_WRITTEN_INFO: Final = itemgetter(*_INFO_NAMES)
_WRITTEN_DEVICE: Final = itemgetter(*_DEVICE_NAMES)


def _read_infos(listed: Sequence[Any]) -> list[ClaimInfo]:
    try:
        # A checkpoint may have a thousand claims, and a kubelet wrote them.
        return [_read_written_info(one) for one in listed]
    except (AttributeError, KeyError, TypeError):
        return [_read_info(one) for one in listed]


def _read_written_info(value: Any) -> ClaimInfo:
    """A claim with exactly the names that kubelets write, in less time than `_read_info` takes.

    Raises:
        AttributeError, KeyError, TypeError: it is not as kubelets write it.
    """
    uid, name, namespace, pods, states = _WRITTEN_INFO(value)
    if len(value) > len(_INFO_NAMES):
        raise KeyError(name)
    # Only texts can be joined: the cheapest way to learn that all are some.
    texts = [uid, name, namespace]
    drivers: dict[str, tuple[PreparedDevice, ...] | None] = {}
    for driver, state in states.items():
        devices = state["Devices"]
        if len(state) > 1 + ("SkipNodeOperations" in state):
            raise KeyError(driver)
        if devices is None:
            drivers[driver] = None
            continue
        prepared = []
        for one in devices:
            pool, device, requests, cdi_ids = _WRITTEN_DEVICE(one)
            share_id = one["ShareID"] if len(one) > len(_DEVICE_NAMES) else None
            if len(one) > len(_DEVICE_NAMES) + 1:
                raise KeyError(device)
            texts += (pool, device)
            if requests is not None:
                if requests.__class__ is not list:
                    raise TypeError(requests)
                texts += requests
                requests = tuple(requests)
            if cdi_ids is not None:
                if cdi_ids.__class__ is not list:
                    raise TypeError(cdi_ids)
                texts += cdi_ids
                cdi_ids = tuple(cdi_ids)
            prepared.append(_new(PreparedDevice, (pool, device, requests, cdi_ids, share_id)))
        drivers[driver] = tuple(prepared)
    "".join(texts)
    return ClaimInfo(uid, name, namespace, dict.fromkeys(pods), drivers)


def _read_info(value: Any) -> ClaimInfo:
    uid, name, namespace, pods, drivers = _INFO.fields(value)
    prepared = {driver: _read_devices(state) for driver, state in (drivers or {}).items()}
    return ClaimInfo(_text(uid), _text(name), _text(namespace), dict.fromkeys(map(PodUID, pods or ())), prepared)


def _read_devices(value: Any) -> tuple[PreparedDevice, ...] | None:
    (devices,) = _DRIVER.fields(value)
    return None if devices is None else tuple(map(_read_device, devices))


def _read_device(value: Any) -> PreparedDevice:
    pool, name, requests, cdi_ids, share_id = _DEVICE.fields(value)
    return PreparedDevice(_text(pool), _text(name), _read_texts(requests), _read_texts(cdi_ids), share_id)


def _read_texts(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(map(_text, value))
    raise TypeError(f"json: cannot unmarshal {_go_kind(value)} into a field of type []string")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise TypeError(f"json: cannot unmarshal {_go_kind(value)} into a field of type string")
