/* The buffers of recent samples, and the time spent below the wanted clocks. No buffer is filled: the load at any
 * moment can be computed from its frames. */
#include "core/clock.h"
#include "nvml/api.h"
#include "nvml/processes.h"

#define BUFFER_SIZE 120u

/* Declares `copy`, a topic as it was `ago_ms` before now. */
#define READ_AGO(gpu, topic, ago_ms, copy)                                                                             \
    __typeof__(((struct fg_gpu_state *)0)->topic) copy;                                                                \
    FG_TRY(fg_read_present((gpu), offsetof(struct fg_gpu_state, topic), &copy, sizeof copy));                          \
    if (fg_is_live((gpu), fg_live_bits(offsetof(struct fg_gpu_state, topic), sizeof copy)))                            \
    FG_TRY(fg_live_apply_ago((gpu), fg_live_bits(offsetof(struct fg_gpu_state, topic), sizeof copy), &copy, (ago_ms)))

static nvmlReturn_t utilization_of(const struct fg_gpu *gpu, nvmlSamplingType_t type, uint64_t ago_ms,
                                   unsigned int *value)
{
    READ_AGO(gpu, utilization, ago_ms, utilization);
    switch (type) {
    case NVML_GPU_UTILIZATION_SAMPLES: *value = utilization.gpu_percent; return NVML_SUCCESS;
    case NVML_MEMORY_UTILIZATION_SAMPLES: *value = utilization.memory_percent; return NVML_SUCCESS;
    case NVML_ENC_UTILIZATION_SAMPLES: *value = utilization.encoder_percent; return NVML_SUCCESS;
    case NVML_DEC_UTILIZATION_SAMPLES: *value = utilization.decoder_percent; return NVML_SUCCESS;
    case NVML_JPG_UTILIZATION_SAMPLES:
        *value = utilization.jpeg_percent;
        return utilization.has_jpeg ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    case NVML_OFA_UTILIZATION_SAMPLES:
        *value = utilization.ofa_percent;
        return utilization.has_ofa ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

static nvmlReturn_t value_of(const struct fg_gpu *gpu, nvmlSamplingType_t type, uint64_t ago_ms, unsigned int *value)
{
    if (type == NVML_TOTAL_POWER_SAMPLES) {
        READ_AGO(gpu, power, ago_ms, power);
        *value = power.usage_mw;
        return NVML_SUCCESS;
    }
    if (type == NVML_PROCESSOR_CLK_SAMPLES || type == NVML_MEMORY_CLK_SAMPLES) {
        READ_AGO(gpu, clocks, ago_ms, clocks);
        *value = clocks.current_mhz[type == NVML_MEMORY_CLK_SAMPLES ? NVML_CLOCK_MEM : NVML_CLOCK_SM];
        return NVML_SUCCESS;
    }
    return utilization_of(gpu, type, ago_ms, value);
}

FG_API nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long since_us,
                            nvmlValueType_t *value_type, unsigned int *count, nvmlSample_t *samples)
{
    unsigned int value;
    FG_ENTER(device, value_type != NULL && count != NULL && (samples == NULL || *count > 0) &&
                         (unsigned int)type < NVML_SAMPLINGTYPE_COUNT);
    FG_TRY(value_of(gpu, type, 0, &value));
    FG_READ(gpu, utilization, utilization);
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (samples == NULL) {
        *count = BUFFER_SIZE;
        return NVML_SUCCESS;
    }
    uint64_t period_us = utilization.period_us > 0 ? utilization.period_us : 1, now = fg_now_us();
    uint64_t last = now / period_us;
    uint64_t first = last - BUFFER_SIZE + 1;
    if (since_us / period_us >= first)
        first = since_us / period_us + 1;
    FG_REQUIRE(first <= last, NVML_ERROR_NOT_FOUND);
    unsigned int found = 0;
    for (uint64_t sample = first; sample <= last && found < *count; sample++, found++) {
        FG_TRY(value_of(gpu, type, (now - sample * period_us) / 1000u, &value));
        samples[found].timeStamp = sample * period_us;
        samples[found].sampleValue.ullVal = value;
    }
    *count = found;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t policy, nvmlViolationTime_t *status)
{
    FG_ENTER(device, status != NULL && (unsigned int)policy < FG_VIOLATIONS);
    FG_REQUIRE(policy <= NVML_PERF_POLICY_RELIABILITY || policy >= NVML_PERF_POLICY_TOTAL_APP_CLOCKS,
               NVML_ERROR_INVALID_ARGUMENT);
    FG_READ(gpu, counters, counters);
    status->referenceTime = fg_now_us();
    status->violationTime = counters.violation_ns[policy];
    return NVML_SUCCESS;
}

/* As nvmlDeviceGetProcessUtilization, with the engines that it leaves out. */
FG_API nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
    struct fg_processes found;
    unsigned long long now;
    FG_ENTER(device, info != NULL);
    FG_REQUIRE_VERSION(info, nvmlProcessesUtilizationInfo_v1);
    FG_READ(gpu, utilization, utilization);
    FG_TRY(fg_working_processes(gpu, info->lastSeenTimeStamp, &found, &now));
    unsigned int room = info->processSamplesCount;
    info->processSamplesCount = found.count;
    FG_REQUIRE(info->procUtilArray != NULL && room >= found.count, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned int index = 0; index < found.count; index++) {
        struct fg_share share = fg_share_of(&utilization, index, found.count);
        info->procUtilArray[index] = (nvmlProcessUtilizationInfo_v1_t){
            .timeStamp = now,
            .pid = found.entries[index].pid,
            .smUtil = share.gpu,
            .memUtil = share.memory,
            .encUtil = share.encoder,
            .decUtil = share.decoder,
            .jpgUtil = share.jpeg,
            .ofaUtil = share.ofa,
        };
    }
    return NVML_SUCCESS;
}
