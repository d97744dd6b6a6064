/* Confidential computing: supported by Hopper and newer boards, and off on all machines. */
#include "nvml/visible.h"

static bool can_compute_confidentially(const struct fg_segment *segment)
{
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        struct fg_identity identity;
        bool is_lost;
        const struct fg_gpu *gpu = fg_visible_gpu(segment, position);
        if (fg_read(gpu, offsetof(struct fg_gpu_state, identity), &identity, sizeof identity, &is_lost) !=
                NVML_SUCCESS ||
            identity.architecture < NVML_DEVICE_ARCH_HOPPER)
            return false;
    }
    return fg_visible_count > 0;
}

FG_API nvmlSystemGetConfComputeCapabilities(nvmlConfComputeSystemCaps_t *capabilities)
{
    FG_ENTER_SYSTEM(capabilities != NULL);
    capabilities->cpuCaps = NVML_CC_SYSTEM_CPU_CAPS_NONE;
    capabilities->gpusCaps =
        can_compute_confidentially(segment) ? NVML_CC_SYSTEM_GPUS_CC_CAPABLE : NVML_CC_SYSTEM_GPUS_CC_NOT_CAPABLE;
    return NVML_SUCCESS;
}

FG_API nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state)
{
    FG_ENTER_SYSTEM(state != NULL);
    (void)segment;
    state->environment = NVML_CC_SYSTEM_ENVIRONMENT_UNAVAILABLE;
    state->ccFeature = NVML_CC_SYSTEM_FEATURE_DISABLED;
    state->devToolsMode = NVML_CC_SYSTEM_DEVTOOLS_MODE_OFF;
    return NVML_SUCCESS;
}

FG_API nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *settings)
{
    FG_ENTER_SYSTEM(settings != NULL);
    (void)segment;
    FG_REQUIRE_VERSION(settings, nvmlSystemConfComputeSettings_v1);
    settings->environment = NVML_CC_SYSTEM_ENVIRONMENT_UNAVAILABLE;
    settings->ccFeature = NVML_CC_SYSTEM_FEATURE_DISABLED;
    settings->devToolsMode = NVML_CC_SYSTEM_DEVTOOLS_MODE_OFF;
    settings->multiGpuMode = NVML_CC_SYSTEM_MULTIGPU_NONE;
    return NVML_SUCCESS;
}

FG_API nvmlSystemGetConfComputeSettings_v2(nvmlSystemConfComputeSettings_v2_t *settings)
{
    FG_ENTER_SYSTEM(settings != NULL);
    (void)segment;
    FG_REQUIRE_VERSION(settings, nvmlSystemConfComputeSettings_v2);
    settings->environment = NVML_CC_SYSTEM_ENVIRONMENT_UNAVAILABLE;
    settings->ccFeature = NVML_CC_SYSTEM_FEATURE_DISABLED;
    settings->devToolsMode = NVML_CC_SYSTEM_DEVTOOLS_MODE_OFF;
    settings->multiGpuMode = NVML_CC_SYSTEM_MULTIGPU_NONE;
    settings->tdispState = 0;
    return NVML_SUCCESS;
}

/* All memory is unprotected; its size is reported where the board could protect some. */
FG_API nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, identity, identity);
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_HOPPER, NVML_ERROR_NOT_SUPPORTED);
    FG_READ(gpu, memory, memory);
    info->protectedMemSizeKib = 0;
    info->unprotectedMemSizeKib = (memory.total_bytes - memory.reserved_bytes) / 1024u;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, nvmlMemory_t *memory)
{
    FG_ENTER(device, memory != NULL);
    FG_READ(gpu, fault, fault);
    memory->total = memory->free = memory->used = 0;
    return NVML_SUCCESS;
}

FG_API nvmlSystemGetConfComputeGpusReadyState(unsigned int *is_ready)
{
    FG_ENTER_SYSTEM(is_ready != NULL);
    (void)segment;
    *is_ready = NVML_CC_ACCEPTING_CLIENT_REQUESTS_FALSE;
    return NVML_SUCCESS;
}
