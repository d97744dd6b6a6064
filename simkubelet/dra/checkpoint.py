"""The DRA manager's checkpoint, the kubelet's ``dra_manager_state``: how it is written, and how it is read.

The file is one line of JSON that has the data as a text, and the CRC-32 of that text. Whether a claim is prepared is
not in it. A file that cannot be used ends the start of the kubelet.

Source: pkg/kubelet/cm/dra/state/checkpoint.go, checkpointer.go, state.go (kubernetes v1.34.4, v1.35.4);
cm/dra/claiminfo.go, ``newClaimInfoCache``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from .._internal.replaced_file import FileNotReplacedError, replace_file
from ..golang.text import InvalidJsonError, json_list, json_string, read_json
from ..model.pod import PodUID
from ..model.version import Difference, Version
from .claim_info import ClaimInfo, PreparedDevice

__all__ = [
    "CHECKPOINT_NAME",
    "BadCheckpointError",
    "ClaimsNotWrittenError",
    "decode",
    "encode",
    "encode_info",
    "load",
    "save",
]

_KEEPS_SHARE_IDS: Final = Difference(
    "the DRA manager's checkpoint has the share id of each device",
    {"1.26": False, "1.35": True},
    "pkg/kubelet/cm/dra/state/state.go, ``Device`` (kubernetes v1.34.4, v1.35.4)",
)

CHECKPOINT_NAME: Final = "dra_manager_state"
_HEAD: Final = '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":'
_GO_KINDS: Final[Mapping[type, str]] = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
_MAX_UINT32: Final = (1 << 32) - 1


class BadCheckpointError(Exception):
    """The kubelet does not start with this file; the message is its own."""


class ClaimsNotWrittenError(Exception):
    """The checkpoint could not be written; the message is the kubelet's."""


def load(folder: Path, version: Version) -> list[ClaimInfo]:
    """Read a folder's checkpoint; where there is none, write an empty one.

    Raises:
        BadCheckpointError: it cannot be used, or it can be neither read nor written.
    """
    path = folder / CHECKPOINT_NAME
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        try:
            _write(folder, encode(None, version))
        except FileNotReplacedError as error:
            reason = f"failed to store checkpoint {CHECKPOINT_NAME}: could not save checkpoint {CHECKPOINT_NAME}: "
            raise BadCheckpointError(f"GetOrCreate() on checkpoint state: {reason}{error}") from None
        return []
    except OSError as error:
        reason = f"failed to get checkpoint {CHECKPOINT_NAME}: open {path}: {(error.strerror or '').lower()}"
        raise BadCheckpointError(f"GetOrCreate() on checkpoint state: {reason}") from None
    return decode(text)


def save(folder: Path, infos: Iterable[ClaimInfo], version: Version) -> None:
    """Write a folder's checkpoint.

    Raises:
        ClaimsNotWrittenError: the disk does not take it.
    """
    try:
        _write(folder, encode(infos, version))
    except FileNotReplacedError as error:
        raise ClaimsNotWrittenError(f"could not save checkpoint {CHECKPOINT_NAME}: {error}") from None


def _write(folder: Path, text: str) -> None:
    replace_file(folder, CHECKPOINT_NAME, text.encode())


def encode(infos: Iterable[ClaimInfo] | None, version: Version) -> str:
    """The text of a file; None is the list of a kubelet that has never written one."""
    listed = "null" if infos is None else _list(encode_info(info, version) for info in infos)
    data = f"{_HEAD}{listed}}}"
    return f'{{"Data":{json_string(data)},"Checksum":{crc32(data.encode())}}}'


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
    try:
        data = _data(text)
    except (InvalidJsonError, ValueError) as error:
        reason = f"failed to get checkpoint {CHECKPOINT_NAME}: {error}"
        raise BadCheckpointError(f"GetOrCreate() on checkpoint state: {reason}") from None
    try:
        listed = _struct(read_json(data)).get("claiminfostatelist")
        return [_read_info(_struct(one)) for one in listed or ()]
    except (AttributeError, InvalidJsonError, TypeError, ValueError) as error:
        raise BadCheckpointError(f"GetEntries() on checkpoint: {error}") from None


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
    given = _struct(document)
    data: str = _kept(given.get("data"), empty, str, "Data of type string")
    checksum: int = _kept(given.get("checksum"), crc32(empty.encode()), int, "Checksum of type uint32")
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


def _struct(value: Any) -> Mapping[str, Any]:
    """The fields of an object by their names in lower case: Go reads them in any case."""
    return {name.lower(): part for name, part in (value or {}).items()}


def _read_info(fields: Mapping[str, Any]) -> ClaimInfo:
    drivers = {
        str(driver): _read_devices(_struct(state).get("devices"))
        for driver, state in (fields.get("driverstate") or {}).items()
    }
    return ClaimInfo(
        uid=_text(fields, "claimuid"),
        name=_text(fields, "claimname"),
        namespace=_text(fields, "namespace"),
        pods=dict.fromkeys(map(PodUID, fields.get("poduids") or {})),
        drivers=drivers,
    )


def _read_devices(devices: Sequence[Any] | None) -> tuple[PreparedDevice, ...] | None:
    return None if devices is None else tuple(_read_device(_struct(device)) for device in devices)


def _read_device(fields: Mapping[str, Any]) -> PreparedDevice:
    requests, cdi_ids = fields.get("requestnames"), fields.get("cdideviceids")
    return PreparedDevice(
        pool=_text(fields, "poolname"),
        name=_text(fields, "devicename"),
        requests=None if requests is None else tuple(map(str, requests)),
        cdi_ids=None if cdi_ids is None else tuple(map(str, cdi_ids)),
        share_id=fields.get("shareid"),
    )


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str | None):
        raise TypeError(f"json: cannot unmarshal {_go_kind(value)} into a field of type string")
    return value or ""
