/* nvmlDeviceGetFieldValues: many values in one call, each with its own return code. */
#include "core/clock.h"
#include "nvml/change.h"
#include "nvml/nvlink_fields.h"

#include <limits.h>
#include <string.h>

static nvmlReturn_t answer_ecc_mode(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, ecc, ecc);
    FG_REQUIRE(ecc.is_supported, NVML_ERROR_NOT_SUPPORTED);
    return fg_field_small(field, field->fieldId == NVML_FI_DEV_ECC_CURRENT ? ecc.current : ecc.pending);
}

#define SINGLE NVML_MEMORY_ERROR_TYPE_CORRECTED
#define DOUBLE NVML_MEMORY_ERROR_TYPE_UNCORRECTED
#define ALL_LOCATIONS FG_ECC_LOCATIONS

static nvmlReturn_t answer_ecc_errors(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    static const struct {
        uint8_t error, counter, location;
    } counters[] = {
        [NVML_FI_DEV_ECC_SBE_VOL_TOTAL] = {SINGLE, NVML_VOLATILE_ECC, ALL_LOCATIONS},
        [NVML_FI_DEV_ECC_DBE_VOL_TOTAL] = {DOUBLE, NVML_VOLATILE_ECC, ALL_LOCATIONS},
        [NVML_FI_DEV_ECC_SBE_AGG_TOTAL] = {SINGLE, NVML_AGGREGATE_ECC, ALL_LOCATIONS},
        [NVML_FI_DEV_ECC_DBE_AGG_TOTAL] = {DOUBLE, NVML_AGGREGATE_ECC, ALL_LOCATIONS},
        [NVML_FI_DEV_ECC_SBE_VOL_L1] = {SINGLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_L1_CACHE},
        [NVML_FI_DEV_ECC_DBE_VOL_L1] = {DOUBLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_L1_CACHE},
        [NVML_FI_DEV_ECC_SBE_VOL_L2] = {SINGLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_L2_CACHE},
        [NVML_FI_DEV_ECC_DBE_VOL_L2] = {DOUBLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_L2_CACHE},
        [NVML_FI_DEV_ECC_SBE_VOL_DEV] = {SINGLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_DEVICE_MEMORY},
        [NVML_FI_DEV_ECC_DBE_VOL_DEV] = {DOUBLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_DEVICE_MEMORY},
        [NVML_FI_DEV_ECC_SBE_VOL_REG] = {SINGLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_REGISTER_FILE},
        [NVML_FI_DEV_ECC_DBE_VOL_REG] = {DOUBLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_REGISTER_FILE},
        [NVML_FI_DEV_ECC_SBE_VOL_TEX] = {SINGLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_TEXTURE_MEMORY},
        [NVML_FI_DEV_ECC_DBE_VOL_TEX] = {DOUBLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_TEXTURE_MEMORY},
        [NVML_FI_DEV_ECC_DBE_VOL_CBU] = {DOUBLE, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_CBU},
        [NVML_FI_DEV_ECC_SBE_AGG_L1] = {SINGLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_L1_CACHE},
        [NVML_FI_DEV_ECC_DBE_AGG_L1] = {DOUBLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_L1_CACHE},
        [NVML_FI_DEV_ECC_SBE_AGG_L2] = {SINGLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_L2_CACHE},
        [NVML_FI_DEV_ECC_DBE_AGG_L2] = {DOUBLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_L2_CACHE},
        [NVML_FI_DEV_ECC_SBE_AGG_DEV] = {SINGLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_DEVICE_MEMORY},
        [NVML_FI_DEV_ECC_DBE_AGG_DEV] = {DOUBLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_DEVICE_MEMORY},
        [NVML_FI_DEV_ECC_SBE_AGG_REG] = {SINGLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_REGISTER_FILE},
        [NVML_FI_DEV_ECC_DBE_AGG_REG] = {DOUBLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_REGISTER_FILE},
        [NVML_FI_DEV_ECC_SBE_AGG_TEX] = {SINGLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_TEXTURE_MEMORY},
        [NVML_FI_DEV_ECC_DBE_AGG_TEX] = {DOUBLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_TEXTURE_MEMORY},
        [NVML_FI_DEV_ECC_DBE_AGG_CBU] = {DOUBLE, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_CBU},
    };
    FG_READ(gpu, ecc, ecc);
    FG_READ(gpu, identity, identity);
    unsigned int id = field->fieldId;
    bool is_here = counters[id].location == ALL_LOCATIONS || identity.architecture < NVML_DEVICE_ARCH_HOPPER;
    FG_REQUIRE(ecc.is_supported && ecc.current && is_here, NVML_ERROR_NOT_SUPPORTED);
    const uint64_t *errors = ecc.errors[counters[id].error][counters[id].counter];
    uint64_t sum = 0;
    for (unsigned int location = 0; location < FG_ECC_LOCATIONS; location++) {
        if (counters[id].location == ALL_LOCATIONS || counters[id].location == location)
            sum += errors[location];
    }
    return fg_field_whole(field, sum);
}

static nvmlReturn_t answer_rows(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, remap, remap);
    FG_REQUIRE(remap.is_supported, NVML_ERROR_NOT_SUPPORTED);
    switch (field->fieldId) {
    case NVML_FI_DEV_REMAPPED_COR: return fg_field_small(field, remap.corrected_rows);
    case NVML_FI_DEV_REMAPPED_UNC: return fg_field_small(field, remap.uncorrected_rows);
    case NVML_FI_DEV_REMAPPED_PENDING: return fg_field_small(field, remap.is_pending);
    case NVML_FI_DEV_REMAPPED_FAILURE: return fg_field_small(field, remap.has_failed);
    default: return fg_field_small(field, 0); /* inactive rows */
    }
}

static nvmlReturn_t answer_retired_pages(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, remap, remap);
    FG_REQUIRE(!remap.is_supported, NVML_ERROR_NOT_SUPPORTED);
    switch (field->fieldId) {
    case NVML_FI_DEV_RETIRED_SBE:
        return fg_field_small(field, remap.retired_pages[NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS]);
    case NVML_FI_DEV_RETIRED_DBE:
        return fg_field_small(field, remap.retired_pages[NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR]);
    default: return fg_field_small(field, remap.is_pending);
    }
}

/* The module draws as much above its setting as its GPU does. */
static nvmlReturn_t answer_module_power(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, module_power, module);
    FG_READ(gpu, power, now);
    FG_READ_EVEN_IF_LOST(gpu, power, set);
    FG_REQUIRE(module.limit_max_mw != 0, NVML_ERROR_NOT_SUPPORTED);
    uint32_t usage_mw = module.usage_mw + (now.usage_mw > set.usage_mw ? now.usage_mw - set.usage_mw : 0);
    switch (field->fieldId) {
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
        return fg_field_small(field, usage_mw < module.limit_mw ? usage_mw : module.limit_mw);
    case NVML_FI_DEV_POWER_MIN_LIMIT: return fg_field_small(field, module.limit_min_mw);
    case NVML_FI_DEV_POWER_MAX_LIMIT: return fg_field_small(field, module.limit_max_mw);
    case NVML_FI_DEV_POWER_DEFAULT_LIMIT: return fg_field_small(field, module.default_limit_mw);
    case NVML_FI_DEV_POWER_CURRENT_LIMIT:
    case NVML_FI_DEV_POWER_REQUESTED_LIMIT: return fg_field_small(field, module.limit_mw);
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

/* Only the average is measured: driver 580 on an H200. */
static nvmlReturn_t answer_memory_power(const struct fg_power *power, nvmlFieldValue_t *field)
{
    switch (field->fieldId) {
    case NVML_FI_DEV_POWER_AVERAGE:
        FG_REQUIRE(power->memory_usage_mw != 0, NVML_ERROR_NOT_SUPPORTED);
        return fg_field_small(field, power->memory_usage_mw);
    case NVML_FI_DEV_POWER_MIN_LIMIT ... NVML_FI_DEV_POWER_CURRENT_LIMIT: return NVML_ERROR_INVALID_ARGUMENT;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

static nvmlReturn_t answer_power(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, power, power);
    if (field->scopeId == NVML_POWER_SCOPE_MODULE)
        return answer_module_power(gpu, field);
    if (field->scopeId == NVML_POWER_SCOPE_MEMORY)
        return answer_memory_power(&power, field);
    FG_REQUIRE(field->scopeId == NVML_POWER_SCOPE_GPU, NVML_ERROR_NOT_SUPPORTED);
    switch (field->fieldId) {
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT: return fg_field_small(field, power.usage_mw);
    case NVML_FI_DEV_POWER_MIN_LIMIT: return fg_field_small(field, power.limit_min_mw);
    case NVML_FI_DEV_POWER_MAX_LIMIT: return fg_field_small(field, power.limit_max_mw);
    case NVML_FI_DEV_POWER_DEFAULT_LIMIT: return fg_field_small(field, power.default_limit_mw);
    case NVML_FI_DEV_POWER_CURRENT_LIMIT:
    case NVML_FI_DEV_POWER_REQUESTED_LIMIT: return fg_field_small(field, power.limit_mw);
    default:
        FG_TRY(fg_count_energy(gpu, &power));
        return fg_field_whole(field, power.energy_mj);
    }
}

/* Limits on the T.Limit scale, whose zero is the highest temperature of full clocks: on Ada and newer boards. */
static nvmlReturn_t answer_t_limit(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, identity, identity);
    FG_READ(gpu, thermal, thermal);
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_ADA, NVML_ERROR_NOT_SUPPORTED);
    nvmlTemperatureThresholds_t threshold = NVML_TEMPERATURE_THRESHOLD_GPU_MAX;
    nvmlTemperatureThresholds_t zero = NVML_TEMPERATURE_THRESHOLD_GPU_MAX;
    if (field->fieldId == NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT)
        threshold = NVML_TEMPERATURE_THRESHOLD_SHUTDOWN;
    if (field->fieldId == NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT)
        threshold = NVML_TEMPERATURE_THRESHOLD_SLOWDOWN;
    if (field->fieldId == NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT)
        threshold = zero = NVML_TEMPERATURE_THRESHOLD_MEM_MAX;
    FG_REQUIRE(thermal.threshold_c[threshold] >= 0, NVML_ERROR_NOT_SUPPORTED);
    field->valueType = NVML_VALUE_TYPE_SIGNED_INT;
    field->value.siVal = thermal.threshold_c[zero] - thermal.threshold_c[threshold];
    return NVML_SUCCESS;
}

static nvmlReturn_t answer_memory_temperature(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, thermal, thermal);
    FG_REQUIRE(thermal.has_memory_sensor, NVML_ERROR_NOT_SUPPORTED);
    return fg_field_small(field, thermal.memory_c);
}

static nvmlReturn_t answer_pcie(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, pci, pci);
    FG_READ(gpu, counters, counters);
    unsigned int id = field->fieldId;
    if (id == NVML_FI_DEV_PCIE_REPLAY_COUNTER)
        return fg_field_small(field, pci.replay_count);
    if (id == NVML_FI_DEV_PCIE_COUNT_TX_BYTES || id == NVML_FI_DEV_PCIE_COUNT_RX_BYTES)
        return fg_field_whole(field, id == NVML_FI_DEV_PCIE_COUNT_TX_BYTES ? counters.pcie_tx_bytes
                                                                           : counters.pcie_rx_bytes);
    if (id >= NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS)
        return fg_field_small(field, (uint32_t)counters.pcie_errors[id - NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS]);
    return fg_field_small(field, 0);
}

static nvmlReturn_t answer_violation(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, counters, counters);
    unsigned int policy = field->fieldId - NVML_FI_DEV_PERF_POLICY_POWER;
    if (field->fieldId == NVML_FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS)
        policy = NVML_PERF_POLICY_TOTAL_APP_CLOCKS;
    if (field->fieldId == NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS)
        policy = NVML_PERF_POLICY_TOTAL_BASE_CLOCKS;
    if (field->fieldId == NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN)
        policy = NVML_PERF_POLICY_THERMAL;
    return fg_field_whole(field, counters.violation_ns[policy]);
}

static nvmlReturn_t answer_slowdown(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, identity, identity);
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_HOPPER, NVML_ERROR_NOT_SUPPORTED);
    return fg_field_whole(field, 0);
}

static nvmlReturn_t answer_c2c(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, firmware, firmware);
    FG_REQUIRE(field->fieldId == NVML_FI_DEV_C2C_LINK_COUNT, NVML_ERROR_NOT_SUPPORTED);
    FG_REQUIRE(firmware.c2c > 1, NVML_ERROR_NOT_SUPPORTED); /* where it is off, too */
    return fg_field_small(field, 0);
}

static nvmlReturn_t answer_mig(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, modes, modes);
    FG_READ(gpu, identity, identity);
    if (field->fieldId == NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE)
        return fg_field_small(field, modes.mig_supported);
    return fg_field_small(field, modes.mig_supported && identity.architecture >= NVML_DEVICE_ARCH_HOPPER);
}

static nvmlReturn_t answer(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    switch (field->fieldId) {
    case NVML_FI_DEV_ECC_CURRENT:
    case NVML_FI_DEV_ECC_PENDING: return answer_ecc_mode(gpu, field);
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL ... NVML_FI_DEV_ECC_DBE_AGG_CBU: return answer_ecc_errors(gpu, field);
    case NVML_FI_DEV_RETIRED_SBE ... NVML_FI_DEV_RETIRED_PENDING:
    case NVML_FI_DEV_RETIRED_PENDING_SBE:
    case NVML_FI_DEV_RETIRED_PENDING_DBE: return answer_retired_pages(gpu, field);
    case NVML_FI_DEV_PERF_POLICY_POWER ... NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS:
    case NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN: return answer_violation(gpu, field);
    case NVML_FI_DEV_MEMORY_TEMP: return answer_memory_temperature(gpu, field);
    case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
    case NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER:
    case NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER:
    case NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS ... NVML_FI_DEV_PCIE_COUNT_LANE_ERROR:
    case NVML_FI_DEV_PCIE_COUNT_TX_BYTES:
    case NVML_FI_DEV_PCIE_COUNT_RX_BYTES: return answer_pcie(gpu, field);
    case NVML_FI_DEV_REMAPPED_COR ... NVML_FI_DEV_REMAPPED_FAILURE:
    case NVML_FI_DEV_REMAPPED_ROWS_COR_INACTIVE:
    case NVML_FI_DEV_REMAPPED_ROWS_UNC_INACTIVE: return answer_rows(gpu, field);
    case NVML_FI_DEV_C2C_LINK_COUNT ... NVML_FI_DEV_C2C_LINK_GET_MAX_BW: return answer_c2c(gpu, field);
    case NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED:
    case NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE: return answer_mig(gpu, field);
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
    case NVML_FI_DEV_POWER_AVERAGE ... NVML_FI_DEV_POWER_REQUESTED_LIMIT: return answer_power(gpu, field);
    case NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT ... NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT:
        return answer_t_limit(gpu, field);
    /* No board here slows down so: Hopper says so, of others nothing is known. */
    case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN:
    case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN: return answer_slowdown(gpu, field);
    /* No board here needs a reset. */
    case NVML_FI_DEV_RESET_STATUS:
    case NVML_FI_DEV_DRAIN_AND_RESET_STATUS:
    case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: return fg_field_small(field, 0);
    /* Newer than driver 580, which has nothing of them. */
    case NVML_FI_DEV_EDPP_MULTIPLIER:
    case NVML_FI_DEV_NVLINK_COUNT_RAW_ERRORS_LANE0 ... NVML_FI_DEV_NVLINK_COUNT_RAW_BER_V2:
    case NVML_FI_DEV_NVLINK_GET_DATA_RATE ... NVML_FI_PWR_SMOOTHING_SOC_POWER_SMOOTHING_ENABLED:
    case NVML_FI_DEV_ACTIVE_BANK_REMAPPINGS ... UINT_MAX: return NVML_ERROR_INVALID_ARGUMENT;
    default: return fg_nvlink_field(gpu, field);
    }
}

FG_API nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields)
{
    FG_ENTER(device, count > 0 && fields != NULL);
    FG_READ(gpu, fault, fault);
    uint64_t now_us = fg_now_us();
    for (int index = 0; index < count; index++) {
        fields[index].timestamp = (long long)now_us;
        fields[index].latencyUsec = 0;
        fields[index].nvmlReturn = answer(gpu, &fields[index]);
    }
    return NVML_SUCCESS;
}

/* Only counters of links can be cleared, of one link or, without one in `scopeId`, of all. */
static nvmlReturn_t clear(struct fg_gpu_state *state, const nvmlFieldValue_t *field)
{
    FG_REQUIRE(fg_is_nvlink_counter(field->fieldId), NVML_ERROR_NOT_SUPPORTED);
    bool is_total = field->scopeId == UINT32_MAX;
    FG_REQUIRE(is_total || field->scopeId < state->nvlink.count, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned int link = 0; link < state->nvlink.count && link < FG_LINKS_MAX; link++) {
        if (is_total || link == field->scopeId)
            memset(state->links[link].errors, 0, sizeof state->links[link].errors);
    }
    return NVML_SUCCESS;
}

FG_API nvmlDeviceClearFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields)
{
    FG_ENTER(device, count > 0 && fields != NULL);
    FG_CHANGE(gpu, change);
    for (int index = 0; index < count; index++)
        fields[index].nvmlReturn = clear(&change.state, &fields[index]);
    return fg_change_commit(&change);
}
