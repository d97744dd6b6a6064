/* NVLink and the fabric of NVSwitches. */
#include "nvml/change.h"
#include "nvml/nvlink_fields.h"
#include "nvml/visible.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(FG_LINK_TO_GPU == NVML_NVLINK_DEVICE_TYPE_GPU, "the numbers are NVML's");
_Static_assert(FG_LINK_TO_SWITCH == NVML_NVLINK_DEVICE_TYPE_SWITCH, "the numbers are NVML's");

/* Steps 1 to 4 for one link: declares `link`, a copy of it, and `nvlink`. */
#define FG_ENTER_LINK(device, number, arguments_are_valid)                                                             \
    FG_ENTER(device, (number) < NVML_NVLINK_MAX_LINKS && (arguments_are_valid));                                       \
    FG_READ(gpu, nvlink, nvlink);                                                                                      \
    FG_REQUIRE((number) < nvlink.count && (number) < FG_LINKS_MAX, NVML_ERROR_NOT_SUPPORTED);                          \
    FG_READ(gpu, links[number], link)

FG_API nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int number, nvmlEnableState_t *is_active)
{
    FG_ENTER_LINK(device, number, is_active != NULL);
    *is_active = link.is_active ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int number, unsigned int *version)
{
    FG_ENTER_LINK(device, number, version != NULL);
    FG_REQUIRE(link.is_active, NVML_ERROR_NOT_SUPPORTED);
    *version = fg_nvlink_version_code(nvlink.version);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int number, nvmlNvLinkCapability_t capability,
                                     unsigned int *result)
{
    FG_ENTER_LINK(device, number, result != NULL && (unsigned int)capability < NVML_NVLINK_CAP_COUNT);
    FG_REQUIRE(link.is_active, NVML_ERROR_NOT_SUPPORTED);
    *result = capability != NVML_NVLINK_CAP_SLI_BRIDGE;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int number, nvmlPciInfo_t *info)
{
    FG_ENTER_LINK(device, number, info != NULL);
    FG_REQUIRE(link.is_active, NVML_ERROR_NOT_SUPPORTED);
    memset(info, 0, sizeof *info);
    info->domain = link.remote_domain;
    info->bus = link.remote_bus;
    info->device = link.remote_device;
    info->pciDeviceId = link.remote_device_id;
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", info->domain & 0xFFFFu,
             info->bus & 0xFFu, info->device & 0xFFu);
    snprintf(info->busId, sizeof info->busId, NVML_DEVICE_PCI_BUS_ID_FMT, info->domain, info->bus, info->device);
    return NVML_SUCCESS;
}

/* Callers of the first version own a struct without the long bus id. */
FG_API nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int number, nvmlPciInfo_t *info)
{
    nvmlPciInfo_t whole;
    FG_REQUIRE(fg_active() == NULL || info != NULL, NVML_ERROR_INVALID_ARGUMENT);
    FG_TRY(nvmlDeviceGetNvLinkRemotePciInfo_v2(device, number, &whole));
    memcpy(info, &whole, offsetof(nvmlPciInfo_t, busId));
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int number, nvmlIntNvLinkDeviceType_t *type)
{
    FG_ENTER_LINK(device, number, type != NULL);
    FG_REQUIRE(link.is_active, NVML_ERROR_NOT_SUPPORTED);
    *type = (nvmlIntNvLinkDeviceType_t)link.remote_type;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int number, nvmlNvLinkErrorCounter_t counter,
                                       unsigned long long *count)
{
    FG_ENTER_LINK(device, number, count != NULL && (unsigned int)counter < NVML_NVLINK_ERROR_COUNT);
    FG_REQUIRE(link.is_active, NVML_ERROR_NOT_SUPPORTED);
    *count = link.errors[counter];
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, fabric, fabric);
    FG_REQUIRE(fabric.is_supported, NVML_ERROR_NOT_SUPPORTED);
    memcpy(info->clusterUuid, fabric.cluster_uuid, sizeof info->clusterUuid);
    info->status = (nvmlReturn_t)fabric.status;
    info->cliqueId = fabric.clique_id;
    info->state = (nvmlGpuFabricState_t)fabric.state;
    return NVML_SUCCESS;
}

/* The caller's version says which of the two structs, one the beginning of the other, it has. */
FG_API nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
    FG_ENTER(device, info != NULL);
    bool is_v3 = info->version == nvmlGpuFabricInfo_v3;
    FG_REQUIRE(is_v3 || info->version == nvmlGpuFabricInfo_v2, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_READ(gpu, fabric, fabric);
    FG_REQUIRE(fabric.is_supported, NVML_ERROR_NOT_SUPPORTED);
    memcpy(info->clusterUuid, fabric.cluster_uuid, sizeof info->clusterUuid);
    info->status = (nvmlReturn_t)fabric.status;
    info->cliqueId = fabric.clique_id;
    info->state = (nvmlGpuFabricState_t)fabric.state;
    info->healthMask = fabric.health_mask;
    if (is_v3)
        info->healthSummary = (unsigned char)fabric.health_summary;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetGpuFabricInfo_v4(nvmlDevice_t device, nvmlGpuFabricInfo_v4_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, fabric, fabric);
    FG_REQUIRE(fabric.is_supported, NVML_ERROR_NOT_SUPPORTED);
    memset(info, 0, sizeof *info);
    memcpy(info->clusterUuid, fabric.cluster_uuid, sizeof info->clusterUuid);
    info->status = (nvmlReturn_t)fabric.status;
    info->state = (nvmlGpuFabricState_t)fabric.state;
    info->numCliques = 1;
    info->cliques[0].id = fabric.clique_id;
    info->healthMask = fabric.health_mask;
    info->healthSummary = (unsigned char)fabric.health_summary;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceResetNvLinkErrorCounters(nvmlDevice_t device, unsigned int number)
{
    FG_ENTER_LINK(device, number, true);
    FG_REQUIRE(link.is_active, NVML_ERROR_NOT_SUPPORTED);
    FG_CHANGE(gpu, change);
    memset(change.state.links[number].errors, 0, sizeof change.state.links[number].errors);
    return fg_change_commit(&change);
}

/* Links go to low power from the fourth NVLink on. */
FG_API nvmlDeviceSetNvLinkDeviceLowPowerThreshold(nvmlDevice_t device, nvmlNvLinkPowerThres_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, nvlink, nvlink);
    FG_REQUIRE(nvlink.count > 0 && nvlink.version >= 4, NVML_ERROR_NOT_SUPPORTED);
    unsigned int threshold = info->lowPwrThreshold;
    bool is_reset = threshold == NVML_NVLINK_LOW_POWER_THRESHOLD_RESET;
    FG_REQUIRE(is_reset || (threshold >= NVML_NVLINK_LOW_POWER_THRESHOLD_MIN &&
                            threshold <= NVML_NVLINK_LOW_POWER_THRESHOLD_MAX),
               NVML_ERROR_INVALID_ARGUMENT);
    FG_CHANGE(gpu, change);
    change.state.nvlink.low_power_threshold = is_reset ? 0 : threshold;
    return fg_change_commit(&change);
}

FG_API nvmlDeviceGetNvLinkInfo(nvmlDevice_t device, nvmlNvLinkInfo_t *info)
{
    FG_ENTER(device, info != NULL);
    bool is_v2 = info->version == nvmlNvLinkInfo_v2;
    FG_REQUIRE(is_v2 || info->version == nvmlNvLinkInfo_v1, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_READ(gpu, nvlink, nvlink);
    FG_REQUIRE(nvlink.count > 0, NVML_ERROR_NOT_SUPPORTED);
    info->isNvleEnabled = 0;
    if (is_v2)
        memset(&info->firmwareInfo, 0, sizeof info->firmwareInfo);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetNvLinkInfo_v3(nvmlDevice_t device, nvmlNvLinkInfo_v3_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, nvlink, nvlink);
    FG_REQUIRE(nvlink.count > 0, NVML_ERROR_NOT_SUPPORTED);
    memset(info, 0, sizeof *info);
    return NVML_SUCCESS;
}

/* One mode for all GPUs, on machines whose links are NVLink 4 or newer. */
static nvmlReturn_t bandwidth_mode(const struct fg_segment *segment, uint32_t *mode)
{
    FG_REQUIRE(fg_visible_count > 0, NVML_ERROR_NOT_SUPPORTED);
    FG_READ(fg_visible_gpu(segment, 0), nvlink, nvlink);
    FG_REQUIRE(nvlink.count > 0 && nvlink.version >= 4, NVML_ERROR_NOT_SUPPORTED);
    *mode = nvlink.bandwidth_mode;
    return NVML_SUCCESS;
}

FG_API nvmlSystemGetNvlinkBwMode(unsigned int *mode)
{
    FG_ENTER_SYSTEM(mode != NULL);
    FG_REQUIRE(geteuid() == 0, NVML_ERROR_NO_PERMISSION);
    return bandwidth_mode(segment, mode);
}

FG_API nvmlSystemSetNvlinkBwMode(unsigned int mode)
{
    enum { FULL, OFF, MIN, HALF, THREE_QUARTERS };
    FG_ENTER_SYSTEM(mode <= THREE_QUARTERS);
    uint32_t before;
    FG_TRY(bandwidth_mode(segment, &before));
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        FG_CHANGE(fg_visible_gpu(segment, position), change);
        change.state.nvlink.bandwidth_mode = mode;
        FG_TRY(fg_change_commit(&change));
    }
    return NVML_SUCCESS;
}
