/* Utilization of the engines. */
#include "nvml/mig.h"

#include <string.h>

FG_API nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    FG_ENTER(device, rates != NULL);
    FG_READ(gpu, utilization, utilization);
    FG_TRY(fg_refuse_mig_mode(gpu));
    rates->gpu = utilization.gpu_percent;
    rates->memory = utilization.memory_percent;
    return NVML_SUCCESS;
}

#define FG_ENGINE_GETTER(function, is_supported, percent_member)                                                       \
    FG_API function(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)                               \
    {                                                                                                                  \
        FG_ENTER(device, percent != NULL && period_us != NULL);                                                        \
        FG_READ(gpu, utilization, utilization);                                                                        \
        FG_TRY(fg_refuse_mig_mode(gpu));                                                                               \
        FG_REQUIRE(is_supported, NVML_ERROR_NOT_SUPPORTED);                                                            \
        *percent = utilization.percent_member;                                                                         \
        *period_us = utilization.period_us;                                                                            \
        return NVML_SUCCESS;                                                                                           \
    }

FG_ENGINE_GETTER(nvmlDeviceGetEncoderUtilization, true, encoder_percent)
FG_ENGINE_GETTER(nvmlDeviceGetDecoderUtilization, true, decoder_percent)
FG_ENGINE_GETTER(nvmlDeviceGetJpgUtilization, utilization.has_jpeg, jpeg_percent)
FG_ENGINE_GETTER(nvmlDeviceGetOfaUtilization, utilization.has_ofa, ofa_percent)

FG_API nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions, unsigned int *average_fps,
                                 unsigned int *average_latency_us)
{
    FG_ENTER(device, sessions != NULL && average_fps != NULL && average_latency_us != NULL);
    FG_READ(gpu, fault, fault);
    *sessions = *average_fps = *average_latency_us = 0;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned int *count, nvmlEncoderSessionInfo_t *sessions)
{
    FG_ENTER(device, count != NULL);
    (void)sessions;
    FG_READ(gpu, fault, fault);
    *count = 0;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetFBCStats(nvmlDevice_t device, nvmlFBCStats_t *stats)
{
    FG_ENTER(device, stats != NULL);
    FG_READ(gpu, fault, fault);
    memset(stats, 0, sizeof *stats);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetFBCSessions(nvmlDevice_t device, unsigned int *count, nvmlFBCSessionInfo_t *sessions)
{
    FG_ENTER(device, count != NULL);
    (void)sessions;
    FG_READ(gpu, fault, fault);
    *count = 0;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device, nvmlGpuDynamicPstatesInfo_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, utilization, utilization);
    memset(info, 0, sizeof *info);
    const unsigned int percents[] = {
        [NVML_GPU_UTILIZATION_DOMAIN_GPU] = utilization.gpu_percent,
        [NVML_GPU_UTILIZATION_DOMAIN_FB] = utilization.memory_percent,
        [NVML_GPU_UTILIZATION_DOMAIN_VID] = utilization.decoder_percent,
    };
    for (unsigned int domain = 0; domain < sizeof percents / sizeof *percents; domain++) {
        info->utilization[domain].bIsPresent = 1;
        info->utilization[domain].percentage = percents[domain];
    }
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetEncoderCapacity(nvmlDevice_t device, nvmlEncoderType_t type, unsigned int *percent)
{
    FG_ENTER(device, percent != NULL && (unsigned int)type <= NVML_ENCODER_QUERY_AV1);
    FG_READ(gpu, utilization, utilization);
    FG_READ(gpu, identity, identity);
    bool has_av1 = identity.architecture == NVML_DEVICE_ARCH_ADA || identity.architecture >= NVML_DEVICE_ARCH_BLACKWELL;
    /* Boards without an encoder are idle, too: driver 580 on an H100 and an H200. */
    FG_REQUIRE(type != NVML_ENCODER_QUERY_AV1 || has_av1, NVML_ERROR_NOT_SUPPORTED);
    *percent = 100u - utilization.encoder_percent;
    return NVML_SUCCESS;
}
