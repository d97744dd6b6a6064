/* The board's PCI address and link. */
#include "nvml/api.h"

#include <stdio.h>
#include <string.h>

#define PCI_BASE_CLASS_DISPLAY 0x03u
#define PCI_SUBCLASS_VGA 0x00u
#define PCI_SUBCLASS_3D 0x02u

static nvmlPciInfo_t describe(const struct fg_pci *pci)
{
    nvmlPciInfo_t info = {
        .domain = pci->domain,
        .bus = pci->bus,
        .device = pci->device,
        .pciDeviceId = pci->device_id,
        .pciSubSystemId = pci->subsystem_id,
    };
    snprintf(info.busIdLegacy, sizeof info.busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xFFFFu, pci->bus & 0xFFu,
             pci->device & 0xFFu);
    snprintf(info.busId, sizeof info.busId, NVML_DEVICE_PCI_BUS_ID_FMT, pci->domain, pci->bus, pci->device);
    return info;
}

FG_API nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ_EVEN_IF_LOST(gpu, pci, pci);
    *info = describe(&pci);
    return NVML_SUCCESS;
}

/* Callers of the older versions own a shorter struct, which ends before the long bus id. */
FG_API nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    nvmlPciInfo_t whole;
    FG_REQUIRE(fg_active() == NULL || info != NULL, NVML_ERROR_INVALID_ARGUMENT);
    FG_TRY(nvmlDeviceGetPciInfo_v3(device, &whole));
    memcpy(info, &whole, offsetof(nvmlPciInfo_t, busId));
    return NVML_SUCCESS;
}

FG_ALIAS(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v2);

FG_API nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_REQUIRE_VERSION(info, nvmlPciInfoExt_v1);
    FG_READ_EVEN_IF_LOST(gpu, pci, pci);
    FG_READ_EVEN_IF_LOST(gpu, identity, identity);
    nvmlPciInfo_t plain = describe(&pci);
    info->domain = plain.domain;
    info->bus = plain.bus;
    info->device = plain.device;
    info->pciDeviceId = plain.pciDeviceId;
    info->pciSubSystemId = plain.pciSubSystemId;
    info->baseClass = PCI_BASE_CLASS_DISPLAY;
    info->subClass = identity.brand == NVML_BRAND_GEFORCE ? PCI_SUBCLASS_VGA : PCI_SUBCLASS_3D;
    memcpy(info->busId, plain.busId, sizeof info->busId);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *value)
{
    FG_ENTER(device, value != NULL && (unsigned int)counter < NVML_PCIE_UTIL_COUNT);
    FG_READ(gpu, pci, pci);
    *value = counter == NVML_PCIE_UTIL_TX_BYTES ? pci.tx_kb_per_s : pci.rx_kb_per_s;
    return NVML_SUCCESS;
}

/* Megabits per second and lane by PCIe generation; index 0 is not a generation. */
static unsigned int lane_speed_mbps(uint32_t generation)
{
    static const unsigned int speeds[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    return generation < sizeof speeds / sizeof *speeds ? speeds[generation] : 0;
}

FG_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, pci, true, pci.link_generation_max)
FG_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, pci, true, pci.gpu_link_generation_max)
FG_GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, pci, true, pci.link_width_max)
FG_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, pci, true, pci.link_generation)
FG_GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, pci, true, pci.link_width)
FG_GETTER(nvmlDeviceGetPcieReplayCounter, unsigned int, pci, true, pci.replay_count)
/* The codes NVML_PCIE_LINK_MAX_SPEED_* are the generations. */
FG_GETTER(nvmlDeviceGetPcieLinkMaxSpeed, unsigned int, pci, true, pci.link_generation_max)
FG_GETTER(nvmlDeviceGetPcieSpeed, unsigned int, pci, true, lane_speed_mbps(pci.link_generation))
FG_GETTER(nvmlDeviceGetIrqNum, unsigned int, pci, true, pci.irq)
FG_GETTER(nvmlDeviceGetBusType, nvmlBusType_t, pci, true, NVML_BUS_TYPE_PCIE)
