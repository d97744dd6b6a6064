/* The buffers of recent samples, as a driver with a steady GPU has them, and the time spent below the wanted clocks. */
#include "nvml_api.h"
#include "processes.h"

#include <time.h>

#define BUFFER_SIZE 120u

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static nvmlReturn_t value_of(const struct fg_gpu *gpu, nvmlSamplingType_t type, unsigned int *value)
{
    FG_READ(gpu, utilization, utilization);
    FG_READ(gpu, power, power);
    FG_READ(gpu, clocks, clocks);
    switch (type) {
    case NVML_TOTAL_POWER_SAMPLES: *value = power.usage_mw; return NVML_SUCCESS;
    case NVML_GPU_UTILIZATION_SAMPLES: *value = utilization.gpu_percent; return NVML_SUCCESS;
    case NVML_MEMORY_UTILIZATION_SAMPLES: *value = utilization.memory_percent; return NVML_SUCCESS;
    case NVML_ENC_UTILIZATION_SAMPLES: *value = utilization.encoder_percent; return NVML_SUCCESS;
    case NVML_DEC_UTILIZATION_SAMPLES: *value = utilization.decoder_percent; return NVML_SUCCESS;
    case NVML_PROCESSOR_CLK_SAMPLES: *value = clocks.current_mhz[NVML_CLOCK_SM]; return NVML_SUCCESS;
    case NVML_MEMORY_CLK_SAMPLES: *value = clocks.current_mhz[NVML_CLOCK_MEM]; return NVML_SUCCESS;
    case NVML_JPG_UTILIZATION_SAMPLES:
        *value = utilization.jpeg_percent;
        return utilization.has_jpeg ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    case NVML_OFA_UTILIZATION_SAMPLES:
        *value = utilization.ofa_percent;
        return utilization.has_ofa ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

FG_API nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long since_us,
                            nvmlValueType_t *value_type, unsigned int *count, nvmlSample_t *samples)
{
    unsigned int value;
    FG_ENTER(device, value_type != NULL && count != NULL && (samples == NULL || *count > 0) &&
                         (unsigned int)type < NVML_SAMPLINGTYPE_COUNT);
    FG_TRY(value_of(gpu, type, &value));
    FG_READ(gpu, utilization, utilization);
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (samples == NULL) {
        *count = BUFFER_SIZE;
        return NVML_SUCCESS;
    }
    uint64_t period_us = utilization.period_us > 0 ? utilization.period_us : 1;
    uint64_t last = now_us() / period_us;
    uint64_t first = last - BUFFER_SIZE + 1;
    if (since_us / period_us >= first)
        first = since_us / period_us + 1;
    FG_REQUIRE(first <= last, NVML_ERROR_NOT_FOUND);
    unsigned int found = 0;
    for (uint64_t sample = first; sample <= last && found < *count; sample++, found++) {
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
    status->referenceTime = now_us();
    status->violationTime = counters.violation_ns[policy];
    return NVML_SUCCESS;
}

/* As nvmlDeviceGetProcessUtilization, with the engines that it leaves out. */
FG_API nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
    struct fg_processes found;
    FG_ENTER(device, info != NULL);
    FG_REQUIRE_VERSION(info, nvmlProcessesUtilizationInfo_v1);
    FG_READ(gpu, utilization, utilization);
    FG_TRY(fg_processes_alive(gpu, &found));
    FG_REQUIRE(found.count > 0, NVML_ERROR_NOT_FOUND);
    unsigned int room = info->processSamplesCount;
    info->processSamplesCount = found.count;
    FG_REQUIRE(info->procUtilArray != NULL && room >= found.count, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned int index = 0; index < found.count; index++) {
        info->procUtilArray[index] = (nvmlProcessUtilizationInfo_v1_t){
            .timeStamp = now_us(),
            .pid = found.entries[index].pid,
            .smUtil = utilization.gpu_percent / found.count,
            .memUtil = utilization.memory_percent / found.count,
            .encUtil = utilization.encoder_percent / found.count,
            .decUtil = utilization.decoder_percent / found.count,
            .jpgUtil = utilization.jpeg_percent / found.count,
            .ofaUtil = utilization.ofa_percent / found.count,
        };
    }
    return NVML_SUCCESS;
}
