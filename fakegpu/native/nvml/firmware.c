/* Data of the board: inforom, platform identity, uptime. */
#include "core/clock.h"
#include "nvml/change.h"

#include <string.h>

_Static_assert(sizeof(((struct fg_firmware *)0)->hostname) == NVML_DEVICE_HOSTNAME_BUFFER_SIZE, "the whole buffer");

FG_API nvmlDeviceGetInforomConfigurationChecksum(nvmlDevice_t device, unsigned int *checksum)
{
    FG_ENTER(device, checksum != NULL);
    FG_READ(gpu, firmware, firmware);
    *checksum = firmware.inforom_checksum;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    FG_ENTER(device, true);
    FG_READ(gpu, fault, fault);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetLastBBXFlushTime(nvmlDevice_t device, unsigned long long *timestamp_us, unsigned long *duration_us)
{
    FG_ENTER(device, timestamp_us != NULL && duration_us != NULL);
    FG_READ(gpu, firmware, firmware);
    FG_REQUIRE(firmware.flushed_at_us != 0, NVML_ERROR_NOT_SUPPORTED);
    *timestamp_us = firmware.flushed_at_us;
    *duration_us = (unsigned long)firmware.flush_us;
    return NVML_SUCCESS;
}

static unsigned int seconds_up(const struct fg_segment *segment)
{
    uint64_t now_us = fg_now_us();
    return now_us > segment->loaded_at_us ? (unsigned int)((now_us - segment->loaded_at_us) / 1000000u) : 0;
}

FG_API nvmlDeviceGetBBXTimeData_v1(nvmlDevice_t device, nvmlBBXTimeData_v1_t *time)
{
    FG_ENTER(device, time != NULL);
    FG_READ(gpu, firmware, firmware);
    FG_REQUIRE(firmware.flushed_at_us != 0, NVML_ERROR_NOT_SUPPORTED);
    time->timeRun = seconds_up(segment);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetGpuUptime_v1(nvmlDevice_t device, nvmlGpuUptime_v1_t *uptime)
{
    FG_ENTER(device, uptime != NULL);
    FG_READ(gpu, fault, fault);
    uptime->uptime = seconds_up(segment);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetC2cModeInfoV(nvmlDevice_t device, nvmlC2cModeInfo_v1_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, firmware, firmware);
    FG_REQUIRE(firmware.c2c != 0, NVML_ERROR_NOT_SUPPORTED);
    info->isC2cEnabled = firmware.c2c - 1u;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetPdi(nvmlDevice_t device, nvmlPdi_t *pdi)
{
    FG_ENTER(device, pdi != NULL);
    FG_REQUIRE_VERSION(pdi, nvmlPdi_v1);
    FG_READ(gpu, firmware, firmware);
    pdi->value = firmware.pdi;
    return NVML_SUCCESS;
}

/* Where the board sits in its rack, reported from Hopper on. A rack here is one host and one tray. */
FG_API nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *info)
{
    FG_ENTER(device, info != NULL);
    unsigned int version = info->version;
    FG_REQUIRE(version == nvmlPlatformInfo_v1 || version == nvmlPlatformInfo_v2, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_READ(gpu, identity, identity);
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_HOPPER, NVML_ERROR_NOT_SUPPORTED);
    FG_READ(gpu, fabric, fabric);
    memset(info, 0, sizeof *info);
    info->version = version;
    info->peerType = fabric.is_supported != 0;
    info->moduleId = (unsigned char)identity.module_id;
    return NVML_SUCCESS;
}

_Static_assert(sizeof(nvmlPlatformInfo_v1_t) == sizeof(nvmlPlatformInfo_v2_t), "one function for both");

FG_API nvmlDeviceGetHostname_v1(nvmlDevice_t device, nvmlHostname_v1_t *hostname)
{
    FG_ENTER(device, hostname != NULL);
    FG_READ(gpu, identity, identity);
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_BLACKWELL, NVML_ERROR_NOT_SUPPORTED); /* not on an H200 */
    FG_READ(gpu, firmware, firmware);
    memcpy(hostname->value, firmware.hostname, sizeof hostname->value);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceSetHostname_v1(nvmlDevice_t device, nvmlHostname_v1_t *hostname)
{
    FG_ENTER(device, hostname != NULL);
    size_t length = strnlen(hostname->value, sizeof hostname->value);
    FG_REQUIRE(length < sizeof hostname->value, NVML_ERROR_INVALID_ARGUMENT);
    FG_CHANGE(gpu, change);
    memset(change.state.firmware.hostname, 0, sizeof change.state.firmware.hostname);
    memcpy(change.state.firmware.hostname, hostname->value, length);
    return fg_change_commit(&change);
}

FG_API nvmlDeviceGetCapabilities(nvmlDevice_t device, nvmlDeviceCapabilities_t *capabilities)
{
    FG_ENTER(device, capabilities != NULL);
    FG_REQUIRE_VERSION(capabilities, nvmlDeviceCapabilities_v1);
    FG_READ(gpu, fault, fault);
    capabilities->capMask = 0;
    return NVML_SUCCESS;
}

/* Without vGPUs no software licence is needed. The older versions of the struct are shorter, but begin alike. */
FG_API nvmlDeviceGetGridLicensableFeatures_v4(nvmlDevice_t device, nvmlGridLicensableFeatures_t *features)
{
    FG_ENTER(device, features != NULL);
    FG_READ(gpu, fault, fault);
    features->isGridLicenseSupported = 0;
    features->licensableFeaturesCount = 0;
    return NVML_SUCCESS;
}

FG_ALIAS(nvmlDeviceGetGridLicensableFeatures_v3, nvmlDeviceGetGridLicensableFeatures_v4);
FG_ALIAS(nvmlDeviceGetGridLicensableFeatures_v2, nvmlDeviceGetGridLicensableFeatures_v4);
FG_ALIAS(nvmlDeviceGetGridLicensableFeatures, nvmlDeviceGetGridLicensableFeatures_v4);
