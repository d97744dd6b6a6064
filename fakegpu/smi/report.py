"""``nvidia-smi -q``: everything about each GPU, as a tree of lines; here is the first part, what the board is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import pynvml

from .reading import (
    NOT_AVAILABLE,
    MigDevice,
    Selected,
    Tree,
    ask,
    bus_id,
    cuda_version,
    field_value,
    mig_devices,
    switch,
    text,
    uncorrected_errors,
)
from .report_figures import bar1, figures_of, memory

_VALUE_COLUMN: Final = 42
_INDENT: Final = 4

DISPLAYS: Final[dict[str, tuple[str, ...]]] = {
    "MEMORY": ("FB Memory Usage", "BAR1 Memory Usage", "Conf Compute Protected Memory Usage"),
    "UTILIZATION": ("Utilization",),
    "ECC": ("ECC Mode", "ECC Errors"),
    "TEMPERATURE": ("Temperature",),
    "POWER": ("GPU Power Readings", "Module Power Readings"),
    "CLOCK": (
        "Clocks",
        "Applications Clocks",
        "Default Applications Clocks",
        "Deferred Clocks",
        "Max Clocks",
        "Max Customer Boost Clocks",
        "Clock Policy",
    ),
    "COMPUTE": ("Compute Mode",),
    "PIDS": ("Processes",),
    "PERFORMANCE": ("Performance State", "Clocks Event Reasons", "Sparse Operation Mode"),
    "PAGE_RETIREMENT": ("Retired Pages",),
    "ENCODER_STATS": ("Encoder Stats",),
    "FBC_STATS": ("FBC Stats",),
    "ROW_REMAPPER": ("Remapped Rows",),
    "VOLTAGE": ("Voltage",),
}
"""What ``-d`` can choose, and the parts of the report that each shows."""


def lines(gpus: Selected, displays: Iterable[str] | None = None) -> Iterator[str]:
    """The report, all of it or the parts that ``displays`` names."""
    shown = None if displays is None else {part for name in displays for part in DISPLAYS[name]}
    yield ""
    yield "==============NVSMI LOG=============="
    yield ""
    yield _line(0, "Timestamp", time.ctime())
    yield _line(0, "Driver Version", pynvml.nvmlSystemGetDriverVersion())
    yield _line(0, "CUDA Version", cuda_version())
    yield ""
    yield _line(0, "Attached GPUs", str(pynvml.nvmlDeviceGetCount()))
    for _, handle in gpus:
        yield f"GPU {bus_id(handle)}"
        tree = [*_identity_of(handle), *figures_of(handle)]
        yield from _walk([entry for entry in tree if shown is None or entry[0] in shown], 1)
        yield ""


def _walk(tree: Tree, depth: int) -> Iterator[str]:
    for label, content in tree:
        if isinstance(content, str):
            yield _line(depth, label, content)
        else:
            yield f"{' ' * _INDENT * depth}{label}"
            yield from _walk(content, depth + 1)


def _line(depth: int, label: str, value: str) -> str:
    return f"{f'{chr(32) * _INDENT * depth}{label}':<{_VALUE_COLUMN}}: {value}"


_BRANDS: Final = {
    pynvml.NVML_BRAND_QUADRO: "Quadro",
    pynvml.NVML_BRAND_TESLA: "Tesla",
    pynvml.NVML_BRAND_GEFORCE: "GeForce",
    pynvml.NVML_BRAND_TITAN: "Titan",
    pynvml.NVML_BRAND_NVIDIA_RTX: "NVIDIA RTX",
    pynvml.NVML_BRAND_NVIDIA: "NVIDIA",
}
_ARCHITECTURES: Final = {
    pynvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
    pynvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
    pynvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
    pynvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
    pynvml.NVML_DEVICE_ARCH_TURING: "Turing",
    pynvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    pynvml.NVML_DEVICE_ARCH_ADA: "Ada Lovelace",
    pynvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    pynvml.NVML_DEVICE_ARCH_BLACKWELL: "Blackwell",
}
_ADDRESSING_MODES: Final = ("None", "HMM", "ATS")
_VIRTUALIZATION_MODES: Final = ("None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA")


def _identity_of(handle: Any) -> Tree:
    """Return the first part, from the product's name to the PCI bus."""
    return [
        ("Product Name", text(ask(pynvml.nvmlDeviceGetName, handle))),
        ("Product Brand", _named(_BRANDS, ask(pynvml.nvmlDeviceGetBrand, handle))),
        ("Product Architecture", _named(_ARCHITECTURES, ask(pynvml.nvmlDeviceGetArchitecture, handle))),
        ("Display Mode", switch(ask(pynvml.nvmlDeviceGetDisplayMode, handle))),
        ("Display Active", switch(ask(pynvml.nvmlDeviceGetDisplayActive, handle))),
        ("Persistence Mode", switch(ask(pynvml.nvmlDeviceGetPersistenceMode, handle))),
        ("Addressing Mode", _named(_ADDRESSING_MODES, ask(pynvml.nvmlDeviceGetAddressingMode, handle))),
        ("MIG Mode", _two_switches(ask(pynvml.nvmlDeviceGetMigMode, handle))),
        *(("MIG Device", _mig_device(device)) for device in mig_devices(handle)),
        ("Accounting Mode", switch(ask(pynvml.nvmlDeviceGetAccountingMode, handle))),
        ("Accounting Mode Buffer Size", text(ask(pynvml.nvmlDeviceGetAccountingBufferSize, handle))),
        ("Driver Model", [("Current", NOT_AVAILABLE), ("Pending", NOT_AVAILABLE)]),
        ("Serial Number", text(ask(pynvml.nvmlDeviceGetSerial, handle))),
        ("GPU UUID", text(ask(pynvml.nvmlDeviceGetUUID, handle))),
        ("Minor Number", text(ask(pynvml.nvmlDeviceGetMinorNumber, handle))),
        ("VBIOS Version", text(ask(pynvml.nvmlDeviceGetVbiosVersion, handle))),
        ("MultiGPU Board", switch(ask(pynvml.nvmlDeviceGetMultiGpuBoard, handle), ("No", "Yes"))),
        ("Board ID", _hex(ask(pynvml.nvmlDeviceGetBoardId, handle))),
        ("Board Part Number", text(ask(pynvml.nvmlDeviceGetBoardPartNumber, handle))),
        ("GPU Part Number", NOT_AVAILABLE),
        ("FRU Part Number", NOT_AVAILABLE),
        ("Module ID", text(ask(pynvml.nvmlDeviceGetModuleId, handle))),
        ("Inforom Version", _inforom(handle)),
        ("Inforom BBX Object Flush", _black_box(handle)),
        ("GPU Operation Mode", _operation_mode(handle)),
        ("GSP Firmware Version", text(ask(pynvml.nvmlDeviceGetGspFirmwareVersion, handle))),
        ("GPU Virtualization Mode", _virtualization(handle)),
        ("GPU Reset Status", _reset_status(handle)),
        ("IBMNPU", [("Relaxed Ordering Mode", NOT_AVAILABLE)]),
        ("PCI", _pci(handle)),
    ]


def _named(names: Any, value: int | None) -> str:
    try:
        return NOT_AVAILABLE if value is None else str(names[value])
    except LookupError:
        return "Unknown"


def _hex(value: int | None) -> str:
    return NOT_AVAILABLE if value is None else f"0x{value:x}"


def _two_switches(values: Any) -> Tree:
    current, pending = values or (None, None)
    return [("Current", switch(current)), ("Pending", switch(pending))]


def _mig_device(device: MigDevice) -> Tree:
    attributes = ask(pynvml.nvmlDeviceGetAttributes_v2, device.handle)
    counts = {
        "Multiprocessor count": "multiprocessorCount",
        "Copy Engine count": "sharedCopyEngineCount",
        "Encoder count": "sharedEncoderCount",
        "Decoder count": "sharedDecoderCount",
        "OFA count": "sharedOfaCount",
        "JPG count": "sharedJpegCount",
    }
    shared: Tree = [(label, text(getattr(attributes, name, None))) for label, name in counts.items()]
    return [
        ("Index", str(device.index)),
        ("GPU Instance ID", str(device.gpu_instance)),
        ("Compute Instance ID", str(device.compute_instance)),
        ("Device Attributes", [("Shared", shared)]),
        ("ECC Errors", [("Volatile", [("SRAM Uncorrectable", text(uncorrected_errors(device)))])]),
        ("FB Memory Usage", memory(device.handle)),
        ("BAR1 Memory", bar1(device.handle)),
    ]


def _inforom(handle: Any) -> Tree:
    objects = {
        "OEM Object": pynvml.NVML_INFOROM_OEM,
        "ECC Object": pynvml.NVML_INFOROM_ECC,
        "Power Management Object": pynvml.NVML_INFOROM_POWER,
    }
    image = ask(pynvml.nvmlDeviceGetInforomImageVersion, handle)
    versions = [
        (label, text(ask(pynvml.nvmlDeviceGetInforomVersion, handle, which))) for label, which in objects.items()
    ]
    return [("Image Version", text(image)), *versions]


def _black_box(handle: Any) -> Tree:
    flush = ask(pynvml.nvmlDeviceGetLastBBXFlushTime, handle)
    if flush is None:
        return [("Latest Timestamp", NOT_AVAILABLE), ("Latest Duration", NOT_AVAILABLE)]
    at_us, took_us = flush
    at = datetime.fromtimestamp(at_us / 1e6)
    return [
        ("Latest Timestamp", f"{at:%Y/%m/%d %H:%M:%S}.{at_us // 1000 % 1000:03}"),
        ("Latest Duration", f"{took_us} us"),
    ]


def _operation_mode(handle: Any) -> Tree:
    modes = (
        ask(pynvml.nvmlDeviceGetCurrentGpuOperationMode, handle),
        ask(pynvml.nvmlDeviceGetPendingGpuOperationMode, handle),
    )
    names = ("All On", "Compute", "Low Double Precision")
    return [(label, _named(names, mode)) for label, mode in zip(("Current", "Pending"), modes, strict=True)]


def _virtualization(handle: Any) -> Tree:
    mode = ask(pynvml.nvmlDeviceGetVirtualizationMode, handle)
    host = ask(pynvml.nvmlDeviceGetHostVgpuMode, handle)
    return [
        ("Virtualization Mode", _named(_VIRTUALIZATION_MODES, mode)),
        ("Host VGPU Mode", _named(("Non SR-IOV", "SR-IOV"), host)),
    ]


def _reset_status(handle: Any) -> Tree:
    required = field_value(handle, pynvml.NVML_FI_DEV_RESET_STATUS)
    recommended = field_value(handle, pynvml.NVML_FI_DEV_DRAIN_AND_RESET_STATUS)
    words = ("No", "Yes")
    return [("Reset Required", switch(required, words)), ("Drain and Reset Recommended", switch(recommended, words))]


def _pci(handle: Any) -> Tree:
    pci = pynvml.nvmlDeviceGetPciInfo(handle)
    generations: Tree = [
        ("Max", text(ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle))),
        ("Current", text(ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle))),
        ("Device Current", text(ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle))),
        ("Device Max", text(ask(pynvml.nvmlDeviceGetGpuMaxPcieLinkGeneration, handle))),
        ("Host Max", text(ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle))),
    ]
    widths: Tree = [
        ("Max", _lanes(ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle))),
        ("Current", _lanes(ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle))),
    ]
    return [
        ("Bus", f"0x{pci.bus:02X}"),
        ("Device", f"0x{pci.device:02X}"),
        ("Domain", f"0x{pci.domain:04X}"),
        ("Device Id", f"0x{pci.pciDeviceId:08X}"),
        ("Bus Id", bus_id(handle)),
        ("Sub System Id", f"0x{pci.pciSubSystemId:08X}"),
        ("GPU Link Info", [("PCIe Generation", generations), ("Link Width", widths)]),
        ("Bridge Chip", [("Type", NOT_AVAILABLE), ("Firmware", NOT_AVAILABLE)]),
        ("Replays Since Reset", text(ask(pynvml.nvmlDeviceGetPcieReplayCounter, handle))),
        ("Replay Number Rollovers", _rollovers(handle)),
        (
            "Tx Throughput",
            text(ask(pynvml.nvmlDeviceGetPcieThroughput, handle, pynvml.NVML_PCIE_UTIL_TX_BYTES), "KB/s"),
        ),
        (
            "Rx Throughput",
            text(ask(pynvml.nvmlDeviceGetPcieThroughput, handle, pynvml.NVML_PCIE_UTIL_RX_BYTES), "KB/s"),
        ),
        ("Atomic Caps Inbound", NOT_AVAILABLE),
        ("Atomic Caps Outbound", NOT_AVAILABLE),
    ]


def _lanes(width: int | None) -> str:
    return NOT_AVAILABLE if width is None else f"{width}x"


def _rollovers(handle: Any) -> str:
    return text(field_value(handle, pynvml.NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER))
