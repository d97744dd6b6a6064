/* nvmlDeviceGetFieldValues: many numbers in one call, each with its own return code. */
#include "nvml_api.h"

#include <time.h>

static nvmlReturn_t whole(nvmlFieldValue_t *field, unsigned long long number)
{
    field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    field->value.ullVal = number;
    return NVML_SUCCESS;
}

static nvmlReturn_t small(nvmlFieldValue_t *field, unsigned int number)
{
    field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    field->value.uiVal = number;
    return NVML_SUCCESS;
}

static nvmlReturn_t answer_ecc(nvmlDevice_t device, nvmlFieldValue_t *field, nvmlMemoryErrorType_t error,
                               nvmlEccCounterType_t counter)
{
    unsigned long long count;
    FG_TRY(nvmlDeviceGetTotalEccErrors(device, error, counter, &count));
    return whole(field, count);
}

static nvmlReturn_t answer(nvmlDevice_t device, const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, thermal, thermal);
    FG_READ(gpu, power, power);
    FG_READ(gpu, nvlink, nvlink);
    FG_READ(gpu, ecc, ecc);
    switch (field->fieldId) {
    case NVML_FI_DEV_ECC_CURRENT:
        return ecc.is_supported ? small(field, ecc.current) : NVML_ERROR_NOT_SUPPORTED;
    case NVML_FI_DEV_ECC_PENDING:
        return ecc.is_supported ? small(field, ecc.pending) : NVML_ERROR_NOT_SUPPORTED;
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
        return answer_ecc(device, field, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC);
    case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
        return answer_ecc(device, field, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC);
    case NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
        return answer_ecc(device, field, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC);
    case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
        return answer_ecc(device, field, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC);
    case NVML_FI_DEV_MEMORY_TEMP:
        return thermal.has_memory_sensor ? small(field, thermal.memory_c) : NVML_ERROR_NOT_SUPPORTED;
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION: return whole(field, power.energy_mj);
    case NVML_FI_DEV_NVLINK_LINK_COUNT: return small(field, nvlink.count);
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT: return small(field, power.usage_mw);
    case NVML_FI_DEV_POWER_MIN_LIMIT: return small(field, power.limit_min_mw);
    case NVML_FI_DEV_POWER_MAX_LIMIT: return small(field, power.limit_max_mw);
    case NVML_FI_DEV_POWER_DEFAULT_LIMIT: return small(field, power.default_limit_mw);
    case NVML_FI_DEV_POWER_CURRENT_LIMIT: return small(field, power.limit_mw);
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

FG_API nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields)
{
    FG_ENTER(device, count > 0 && fields != NULL);
    FG_READ(gpu, fault, fault);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int index = 0; index < count; index++) {
        fields[index].timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
        fields[index].latencyUsec = 0;
        fields[index].nvmlReturn = answer(device, gpu, &fields[index]);
    }
    return NVML_SUCCESS;
}
